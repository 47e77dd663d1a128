//! Verifies what Grapnel sent with the libraries of the standards. Reads captures as JSON, writes a tally for each library.
//!
//! A check is one capture with one secret. The libraries refuse a body that is not UTF-8 with an error of its own. The same capture
//! with another body and with another id must be refused.
use std::collections::BTreeMap;
use std::error::Error;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{json, Value};

#[derive(Default)]
struct Tally {
    right: u32,
    bytes: u32,
    wrong: u32,
    accepted: u32,
    says: String,
}

impl Tally {
    fn says(&mut self, text: &str) {
        if self.says.is_empty() {
            self.says = text.to_owned();
        }
    }

    fn check(&mut self, verify: impl Fn(&[u8], &HeaderMap) -> Result<(), String>, body: &[u8], headers: &HeaderMap) {
        match verify(body, headers) {
            Ok(()) => self.right += 1,
            Err(_) if std::str::from_utf8(body).is_err() => self.bytes += 1,
            Err(e) => {
                self.wrong += 1;
                self.says(&e);
            }
        }
        let longer = [body, b"x"].concat();
        let mut other = headers.clone();
        for (name, value) in other.iter_mut() {
            if name.as_str().ends_with("-id") {
                let changed = [value.as_bytes(), b"0"].concat();
                *value = HeaderValue::from_bytes(&changed).expect("a header with one more digit");
            }
        }
        for (what, body, headers) in [("another body", &longer[..], headers), ("another id", body, &other)] {
            if verify(body, headers).is_ok() {
                self.accepted += 1;
                self.says(what);
            }
        }
    }
}

fn text(value: &Value) -> Result<&str, Box<dyn Error>> {
    value.as_str().ok_or_else(|| format!("{value} is no string").into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let captures: Vec<Value> = serde_json::from_reader(std::io::stdin())?;
    for capture in &captures {
        let mut headers = HeaderMap::new();
        for (name, value) in capture["headers"].as_object().ok_or("a capture without headers")? {
            headers.insert(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(text(value)?)?);
        }
        let body = STANDARD.decode(text(&capture["body"])?)?;
        let family = if headers.contains_key("svix-id") { "svix svix-*" } else { "svix webhook-*" };
        for secret in capture["secrets"].as_array().ok_or("a capture without secrets")? {
            let standard = standardwebhooks::Webhook::new(text(secret)?)?;
            let other = svix::webhooks::Webhook::new(text(secret)?)?;
            let tally = tallies.entry("standardwebhooks webhook-*").or_default();
            tally.check(|b, h| standard.verify(b, h).map_err(|e| e.to_string()), &body, &headers);
            let tally = tallies.entry(family).or_default();
            tally.check(|b, h| other.verify(b, h).map_err(|e| e.to_string()), &body, &headers);
        }
    }
    let all: BTreeMap<_, _> = tallies
        .into_iter()
        .map(|(library, t)| {
            (library, json!({"right": t.right, "bytes": t.bytes, "wrong": t.wrong, "accepted": t.accepted, "says": t.says}))
        })
        .collect();
    serde_json::to_writer(std::io::stdout(), &all)?;
    Ok(())
}
