package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/journal/postgres"
)

// postgresDSN is the DSN of a store that is given as postgres:DSN, or as an URL.
func postgresDSN(spec string) (dsn string, ok bool) {
	scheme, rest, _ := strings.Cut(spec, ":")
	switch {
	case scheme != "postgres" && scheme != "postgresql":
		return "", false
	case strings.HasPrefix(rest, "//"):
		return spec, true
	}
	return rest, true
}

// openPostgres opens a schema that is there: postgres.Open would make one.
func (s *session) openPostgres(ctx context.Context, dsn string) (store, error) {
	var opts []postgres.Option
	if s.schema != "" {
		opts = append(opts, postgres.Schema(s.schema))
	}
	missing, err := lacksSchema(ctx, dsn, s.schema)
	if err == nil && missing {
		return nil, &exitError{code: exitNoStore, text: fmt.Sprintf("%s has no journal: give the database that your program writes to, "+
			"and with --schema the name of its schema, if that is not pawl", shownStore(s.store))}
	}
	db, err := postgres.Open(ctx, dsn, opts...) // which says best what is wrong, should it not have been reached
	if err != nil {
		return nil, &exitError{code: exitNoStore, err: err, text: withoutSecrets(err.Error())}
	}
	return db, nil
}

// lacksSchema reports whether there is no journal in a database.
func lacksSchema(ctx context.Context, dsn, schema string) (missing bool, err error) {
	if schema == "" {
		schema = "pawl"
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return false, err
	}
	err = conn.QueryRow(ctx, "SELECT to_regclass($1) IS NULL", pgx.Identifier{schema, "pawl_schema"}.Sanitize()).Scan(&missing)
	_ = conn.Close(ctx)
	return missing, err
}

// shownStore is a store as it may be printed: without a password.
func shownStore(spec string) string {
	dsn, ok := postgresDSN(spec)
	if !ok {
		return spec
	}
	const hidden = "postgres:..." // where any part may be a password
	config, err := pgx.ParseConfig(dsn)
	switch {
	case err != nil:
		return hidden
	case strings.Contains(dsn, "://"):
		if text, ok := withoutPassword(dsn); ok {
			return text
		}
		return hidden
	case !isSecret(dsn):
		return spec
	}
	at := config.Host
	if !filepath.IsAbs(at) {
		at = net.JoinHostPort(at, strconv.Itoa(int(config.Port)))
	}
	return fmt.Sprintf("postgres:host=%s user=%s dbname=%s", at, config.User, config.Database)
}

// withoutPassword is an URL without its password, unless it cannot be told what that is.
func withoutPassword(dsn string) (text string, ok bool) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", false
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		shown.User = url.User(u.User.Username())
	}
	q := u.Query()
	for key := range q {
		if isSecret(key) {
			q.Del(key)
		}
	}
	shown.RawQuery = q.Encode()
	// A user's name that is not escaped may have ended the part where passwords stand.
	unsure := strings.ContainsAny(u.Path, "@:") || strings.ContainsAny(shown.RawQuery, "@:") || strings.Contains(shown.RawQuery, "%40")
	return shown.String(), !unsure
}

func isSecret(key string) bool { return strings.Contains(strings.ToLower(key), "password") }

var secrets = []*regexp.Regexp{ //nolint:gochecknoglobals // a constant table
	regexp.MustCompile(`(//[^\s/:@]*:)[^\s@]*(@)`),
	regexp.MustCompile(`(?i)(password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&]+)()`),
}

// withoutSecrets is a text without the passwords of DSNs in it. What this program prints of a store has none; it is for what
// others say of arguments that have got into the wrong place.
func withoutSecrets(text string) string {
	for _, secret := range secrets {
		text = secret.ReplaceAllString(text, "$1***$2")
	}
	return text
}
