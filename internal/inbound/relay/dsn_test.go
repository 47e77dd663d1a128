package relay

import (
	"strings"
	"testing"
)

// TestMySQLDSN: what a DSN of MySQL may say, where it leads, and that no fault shows its password.
func TestMySQLDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"mysql://u:hunter2@db/orders":                                            "db:3306 orders",
		"mariadb://u@[::1]:3307/orders?ssl-mode=required":                        "[::1]:3307 orders",
		"mysql://u:p%40@db:1/orders?ssl-mode=VERIFY_IDENTITY&ssl-ca=/etc/ca.pem": "db:1 orders",
		"mysql://u@/orders?socket=/run/mysqld/mysqld.sock":                       "/run/mysqld/mysqld.sock orders",
	} {
		if err := CheckDSN(dsn); err != nil || Place(dsn) != want {
			t.Errorf("%s: %v, %q", dsn, err, Place(dsn))
		}
	}
	for dsn, want := range map[string]string{
		"mysql://u:hunter2@db":                           "mysql://user:password@host",
		"mysql://u:hunter2@db:x/orders":                  "mysql://user:password@host",
		"mysql://db/orders":                              "mysql://user:password@host",
		"mysql://u:hunter2@/orders":                      "mysql://user:password@host",
		"mysql:u:hunter2@tcp(db)/orders":                 "mysql://user:password@host",
		"mysql://u:hunter2@db/orders?ssl-mode=hunter2":   "VERIFY_IDENTITY",
		"mysql://u:hunter2@db/orders?tls=true":           "ssl-mode, ssl-ca and socket",
		"mysql://u:hunter2@db/orders?ssl-ca=/etc/ca.pem": "needs ssl-mode=VERIFY_IDENTITY",
		"mysql://u:hunter2@/orders?socket=mysqld.sock":   "absolute path",
	} {
		err := CheckDSN(dsn)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || Place(dsn) != "" {
			t.Errorf("%s: %v, %q", dsn, err, Place(dsn))
		}
	}
}
