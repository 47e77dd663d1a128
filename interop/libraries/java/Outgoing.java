import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Verifies what Grapnel sent with the libraries of the standards. Reads captures as JSON, writes a tally for each library.
 *
 * A check is one capture with one secret. The libraries take the body as a String, which cannot hold one that is not UTF-8. The
 * same capture with another body and with another id must be refused.
 */
class Outgoing {
    interface Verify {
        void verify(String body, Map<String, List<String>> headers) throws Exception;
    }

    static class Tally {
        public int right, bytes, wrong, accepted;
        public String says = "";
    }

    static final Map<String, Tally> tallies = new TreeMap<>();

    static void check(String library, Verify verify, byte[] body, Map<String, List<String>> headers) {
        Tally tally = tallies.computeIfAbsent(library, name -> new Tally());
        try {
            verify.verify(text(body), headers);
            tally.right++;
        } catch (Exception e) {
            if (isUtf8(body)) {
                tally.wrong++;
                says(tally, e.toString());
            } else {
                tally.bytes++;
            }
        }
        byte[] longer = Arrays.copyOf(body, body.length + 1);
        longer[body.length] = 'x';
        Map<String, List<String>> other = new TreeMap<>(headers);
        other.replaceAll((name, values) -> name.endsWith("-id") ? List.of(values.get(0) + "0") : values);
        refuse(tally, "another body", verify, longer, headers);
        refuse(tally, "another id", verify, body, other);
    }

    static void refuse(Tally tally, String what, Verify verify, byte[] body, Map<String, List<String>> headers) {
        try {
            verify.verify(text(body), headers);
        } catch (Exception e) {
            return;
        }
        tally.accepted++;
        says(tally, what);
    }

    static void says(Tally tally, String text) {
        if (tally.says.isEmpty()) {
            tally.says = text;
        }
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    static boolean isUtf8(byte[] body) {
        try {
            StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body));
            return true;
        } catch (CharacterCodingException e) {
            return false;
        }
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        for (JsonNode capture : json.readTree(System.in)) {
            Map<String, List<String>> headers = new TreeMap<>();
            capture.get("headers").fields().forEachRemaining(h -> headers.put(h.getKey(), List.of(h.getValue().asText())));
            byte[] body = capture.get("body").binaryValue();
            String family = headers.containsKey("svix-id") ? "svix-*" : "webhook-*";
            for (JsonNode secret : capture.get("secrets")) {
                var standard = new com.standardwebhooks.Webhook(secret.asText());
                var svix = new com.svix.Webhook(secret.asText());
                check("com.standardwebhooks:standardwebhooks webhook-*", standard::verify, body, headers);
                check("com.svix:svix " + family, svix::verify, body, headers);
            }
        }
        json.writeValue(System.out, tallies);
    }
}
