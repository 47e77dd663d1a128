package relay

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// Database is the kind of database that a DSN names.
type Database int

// The databases.
const (
	Postgres Database = iota
	SQLite
	MySQL // or MariaDB
)

// No error describes the fault of a DSN where the description could contain its password.
var (
	errDSN   = errors.New("not a PostgreSQL DSN; use one such as postgres://user:password@host:5432/database or host=… dbname=…")
	errFile  = errors.New("not the absolute path of an SQLite database; use one such as sqlite:/var/lib/orders.db")
	errMySQL = errors.New("not a MySQL DSN; use one such as mysql://user:password@host:3306/database?ssl-mode=VERIFY_IDENTITY")
)

const connectTime = 10 * time.Second

// KindOf is the database that a DSN names, whether or not the rest of the DSN can be used.
func KindOf(dsn string) Database {
	scheme, _, _ := strings.Cut(dsn, ":")
	switch scheme {
	case "sqlite":
		return SQLite
	case "mysql", "mariadb":
		return MySQL
	}
	return Postgres
}

// CheckDSN says whether something can be a DSN.
func CheckDSN(dsn string) (err error) {
	switch KindOf(dsn) {
	case SQLite:
		return checkFile(filePath(dsn))
	case MySQL:
		_, err = parseMySQL(dsn)
	default:
		_, err = parse(dsn)
	}
	return err
}

// Place is the host and database of a DSN, without secrets.
func Place(dsn string) string {
	switch KindOf(dsn) {
	case SQLite:
		return filePath(dsn)
	case MySQL:
		if at, err := parseMySQL(dsn); err == nil {
			return at.address + " " + at.database
		}
		return ""
	}
	config, err := parse(dsn)
	if err != nil {
		return ""
	}
	if strings.HasPrefix(config.Host, "/") {
		return config.Host + " " + config.Database
	}
	return fmt.Sprintf("%s:%d %s", config.Host, config.Port, config.Database)
}

// filePath is the path of the DSN of an SQLite database.
func filePath(dsn string) string { return strings.TrimPrefix(dsn, "sqlite:") }

// checkFile says whether a path can be one of an outbox.
func checkFile(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return errFile
	}
	return nil
}

// parse reads a DSN of PostgreSQL.
func parse(dsn string) (*pgx.ConnConfig, error) {
	if strings.TrimSpace(dsn) == "" {
		return nil, errDSN // which pgx would take for localhost
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errDSN
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "grapnel"
	}
	config.ConnectTimeout = min(max(config.ConnectTimeout, time.Second), connectTime)
	return config, nil
}

// mysqlDSN is a DSN of MySQL or MariaDB in parts.
type mysqlDSN struct {
	user, password, database string
	network, address         string // tcp and host:port, or unix and a path
	mode, ca                 string // ssl-mode and ssl-ca, as the client that is called mysql names them
}

// parseMySQL reads a DSN of MySQL or MariaDB.
func parseMySQL(dsn string) (at mysqlDSN, err error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Opaque != "" || u.User == nil || u.Fragment != "" {
		return at, errMySQL
	}
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return at, errMySQL
	}
	at.user, at.database, at.mode = u.User.Username(), strings.TrimPrefix(u.Path, "/"), "PREFERRED"
	at.password, _ = u.User.Password()
	at.network, at.address = "tcp", net.JoinHostPort(u.Hostname(), "3306")
	if u.Port() != "" {
		at.address = u.Host
	}
	for name, values := range given {
		switch name {
		case "ssl-mode":
			at.mode = strings.ToUpper(values[0])
		case "ssl-ca":
			at.ca = values[0]
		case "socket":
			at.network, at.address = "unix", values[0]
		default:
			return at, errors.New("a MySQL DSN has no parameters but ssl-mode, ssl-ca and socket")
		}
	}
	switch at.mode {
	case "DISABLED", "PREFERRED", "REQUIRED", "VERIFY_IDENTITY":
	default:
		return at, errors.New("the ssl-mode of a MySQL DSN is none of DISABLED, PREFERRED, REQUIRED and VERIFY_IDENTITY")
	}
	switch {
	case at.user == "", at.database == "", strings.Contains(at.database, "/"), at.network == "tcp" && u.Hostname() == "":
		return at, errMySQL
	case at.network == "unix" && !filepath.IsAbs(at.address):
		return at, errors.New("the socket of a MySQL DSN is not an absolute path")
	case at.ca != "" && (at.mode != "VERIFY_IDENTITY" || at.network == "unix"):
		return at, errors.New("the ssl-ca of a MySQL DSN needs ssl-mode=VERIFY_IDENTITY and a host")
	}
	return at, nil
}

// config is what the driver needs to connect.
func (at mysqlDSN) config() (*mysql.Config, error) {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName, c.Net, c.Addr = at.user, at.password, at.database, at.network, at.address
	c.ParseTime, c.Loc, c.Timeout, c.Logger = true, time.UTC, connectTime, &mysql.NopLogger{}
	c.ConnectionAttributes = "program_name:grapnel"
	// A session that is silent for a minute is that of a lost machine: it ends with its locks.
	c.Params = map[string]string{"wait_timeout": "60"}
	// One call removes a page, by a statement for each row. They hold numbers alone.
	c.MultiStatements = true
	if at.mode == "DISABLED" || at.network == "unix" {
		return c, nil
	}
	// Without VERIFY_IDENTITY any certificate does, as it does for other clients of MySQL.
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: at.mode != "VERIFY_IDENTITY"} //nolint:gosec // the DSN says so
	c.AllowFallbackToPlaintext = at.mode == "PREFERRED"
	if at.ca != "" {
		pem, err := os.ReadFile(at.ca)
		if err != nil {
			return nil, fmt.Errorf("ssl-ca: %w", err)
		}
		c.TLS.RootCAs = x509.NewCertPool()
		if !c.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ssl-ca: %s has no certificates", at.ca)
		}
	}
	return c, nil
}
