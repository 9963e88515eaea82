package conn

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gomodule/redigo/redis"
)

// target is a parsed address.
type target struct {
	name, network, address string
	options                []redis.DialOption
	login                  [][]any // AUTH and SELECT, as the address says
}

func parseAddress(addr string) (target, error) {
	scheme, isURL := schemeOf(addr)
	if !isURL {
		if err := wanted(addr); err != nil {
			return target{}, err
		}
		return tcpTarget(addr, "")
	}
	u, err := url.Parse(addr)
	if err != nil {
		// Not %w: a url.Error prints the whole address, password included.
		return target{}, errors.New("not a URL")
	}
	var t target
	switch scheme {
	case "redis", "rediss", "valkey", "valkeys":
		t, err = urlTarget(u)
	case "unix":
		t, err = unixTarget(u)
	default: // The scheme is not shown: it may be the part of a password before a ://.
		return target{}, errors.New("unknown scheme: want host:port, redis://, rediss:// or unix://")
	}
	if err != nil {
		return target{}, err
	}
	if u.User != nil {
		password, ok := u.User.Password()
		user := u.User.Username()
		if !ok { // redis-cli's reading: a lone word is the password.
			user, password = "", user
		}
		auth := []any{"AUTH", password}
		if user != "" {
			auth = []any{"AUTH", user, password}
		}
		if password != "" {
			t.login = append([][]any{auth}, t.login...)
		}
		t.options = append(t.options, redis.DialUsername(""), redis.DialPassword("")) // They win over opts.
	}
	return t, nil
}

// wanted returns an error that says what to write instead of an address that is not a URL, if its meaning is clear. It
// returns nil if nothing is wrong, or tcpTarget says it.
func wanted(addr string) error {
	switch {
	case strings.TrimSpace(addr) == "":
		return errors.New("it is empty: is a variable unset?")
	case strings.ContainsAny(addr, "=;"):
		return errors.New("key=value means nothing here: want host:port or redis://user:password@host:port, with rediss:// for TLS")
	case strings.Contains(addr, "@"):
		return errors.New("credentials need a URL: redis://user:password@host:port")
	case strings.Contains(addr, ","):
		return errors.New("want one address, not a list")
	case socketRE.MatchString(addr):
		return errSocket
	default:
		return nil
	}
}

// socketRE matches the path of a socket, and near misses of its URL.
var socketRE = regexp.MustCompile(`^(unix:|[.~]{0,2}/)`)

var errSocket = errors.New("a socket needs a URL: unix:///run/redis.sock")

func urlTarget(u *url.URL) (target, error) {
	host, db := u.Host, strings.TrimPrefix(u.Path, "/")
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "6379")
	}
	queried, err := databaseIn(u)
	switch {
	case err != nil:
		return target{}, err
	case queried != "" && db != "":
		return target{}, errors.New("a database in the path and in the query")
	}
	t, err := tcpTarget(host, db+queried)
	if u.Scheme == "rediss" || u.Scheme == "valkeys" {
		t.options = append(t.options, redis.DialUseTLS(true))
	}
	return t, err
}

func tcpTarget(hostport, db string) (target, error) {
	host, port, err := net.SplitHostPort(hostport)
	isIP6 := func(s string) bool { ip, _ := netip.ParseAddr(s); return ip.Is6() }
	switch {
	case err == nil:
	case isIP6(strings.Trim(hostport, "[]")), isIP6(hostport[:max(0, strings.LastIndex(hostport, ":"))]):
		return target{}, errors.New("an IPv6 address needs brackets and a port: [::1]:6379")
	default:
		return target{}, errors.New("want host:port, such as localhost:6379")
	}
	if host == "" {
		host = "localhost"
	}
	if strings.ContainsAny(host, "@/?#=,; ") || strings.ContainsFunc(host, unicode.IsControl) {
		return target{}, errors.New("want host:port, or a URL")
	}
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return target{}, fmt.Errorf("port%s: want 1 to 65535", shown(port))
	}
	address := net.JoinHostPort(host, port)
	t := target{name: address, network: "tcp", address: address}
	return t, t.database(db, "/")
}

func unixTarget(u *url.URL) (target, error) {
	if u.Host != "" || u.Path == "" {
		return target{}, errSocket
	}
	t := target{name: u.Path, network: "unix", address: u.Path}
	db, err := databaseIn(u)
	if err != nil {
		return target{}, err
	}
	return t, t.database(db, "?db=")
}

// nameRE matches words that can only be names of options, which other clients have in queries.
var nameRE = regexp.MustCompile(`^[a-z_]{1,32}$`)

// databaseIn returns the database that a query names, empty for none. Anything else in a query is an error, as it would
// have no effect. The error names it, unless it may be part of a password: a ? in a password leaves its @ in the query.
func databaseIn(u *url.URL) (db string, err error) {
	if u.Fragment != "" {
		return "", errors.New("a fragment means nothing here")
	}
	values, err := url.ParseQuery(u.RawQuery)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case name == "db":
		case nameRE.MatchString(name) && values.Get(name) != "" && err == nil && !strings.Contains(u.RawQuery, "@"):
			return "", fmt.Errorf("%q in the query means nothing here (only db does)", name)
		default:
			err = errQuery
		}
	}
	all := values["db"]
	switch {
	case err != nil:
		return "", errQuery
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", errors.New("more than one database in the query")
	case all[0] == "":
		return "", errors.New("database: want a number")
	}
	return all[0], nil
}

var errQuery = errors.New("what is in the query means nothing here (only db does)")

// database selects the database that s names, if it names one.
func (t *target) database(s, separator string) error {
	if s == "" {
		return nil
	}
	db, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return fmt.Errorf("database%s: want a number", shown(s))
	}
	if db != 0 {
		t.name += separator + strconv.FormatUint(db, 10)
		t.login = append(t.login, []any{"SELECT", int(db)})
		t.options = append(t.options, redis.DialDatabase(0))
	}
	return nil
}

// shown returns a part of a malformed address for its error, if it is a short number. Anything else may be a password
// whose @ or / was forgotten.
func shown(part string) string {
	if len(part) > 5 || strings.Trim(part, "0123456789") != "" {
		return ""
	}
	return fmt.Sprintf(" %q", part)
}

// anySchemeRE matches a scheme. shownRE matches what is shown of a malformed address: a URL's scheme, the key of a
// key=value, or else what looks like a host. It takes no capitals, as generated passwords have them.
var (
	anySchemeRE = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	shownRE     = regexp.MustCompile(`^(((redis|valkey)(s|[+-][a-z]+)?|unix|https?|tcp)://|[a-z0-9.-]*(:|$)|[a-z_]{1,32}=)`)
)

// schemeOf returns the scheme of a URL. A key=value whose password contains :// is no URL.
func schemeOf(addr string) (scheme string, isURL bool) {
	scheme, _, isURL = strings.Cut(addr, "://")
	return scheme, isURL && anySchemeRE.MatchString(scheme)
}

// withoutCredentials returns what is shown of a malformed address. A password may stand behind a : or =, on both sides
// of an @ that is part of it, and in place of a scheme that nobody knows.
func withoutCredentials(addr string) string {
	shown := shownRE.FindString(addr)
	_, isURL := schemeOf(addr)
	switch {
	case isURL != strings.HasSuffix(shown, "://"), !isURL && strings.Contains(addr, "@"):
		return "…"
	case shown == addr && !strings.HasSuffix(addr, ":"):
		return addr
	default:
		return shown + "…"
	}
}
