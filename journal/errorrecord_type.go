package journal

import (
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"sync"
	"syscall"
	"time"
)

// reflectTypeName stands for a reflect.Type in an interface.
const reflectTypeName = "reflect.Type"

// typePath names a type: "*net/url.Error", "main.Code". Types without a name are written as in Go. Two types that are
// defined in functions can have one path; they are told apart by their fields only.
func typePath(t reflect.Type) string {
	stars := ""
	for t.Kind() == reflect.Pointer && t.Name() == "" {
		stars, t = stars+"*", t.Elem()
	}
	if t.Name() == "" || t.PkgPath() == "" {
		return stars + t.String()
	}
	return stars + t.PkgPath() + "." + t.Name()
}

// knownTypes are the types, by path, that come back out of a field whose type is an interface. Other types cannot be found
// by their names.
//
//nolint:gochecknoglobals // a table that nothing writes to
var knownTypes = sync.OnceValue(func() map[string]reflect.Type {
	known := map[string]reflect.Type{}
	for _, v := range [...]any{
		false, int(0), int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0), uintptr(0),
		float32(0), float64(0), "", json.Number(""), json.RawMessage(nil),
		[]byte(nil), []any(nil), []string(nil), []bool(nil), []int(nil), []int64(nil), []float64(nil),
		map[string]any(nil), map[string]string(nil), map[string]int(nil), map[string][]string(nil),
		time.Time{}, time.Duration(0), time.Month(0), time.Weekday(0), new(time.Time), new(time.Duration),
		url.URL{}, new(url.URL), url.Values(nil), http.Header(nil), syscall.Signal(0),
		new(string), new(int), new(int64), new(float64), new(bool),
		net.IP(nil), net.IPMask(nil), net.HardwareAddr(nil), new(net.IPNet),
		new(net.TCPAddr), new(net.UDPAddr), new(net.IPAddr), new(net.UnixAddr),
		netip.Addr{}, netip.AddrPort{}, netip.Prefix{}, struct{}{},
	} {
		t := reflect.TypeOf(v)
		known[typePath(t)] = t
	}
	return known
})

// never are types that are not written down: live things, and such as hold secrets of their own.
func never(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[http.Request](), reflect.TypeFor[http.Response](), reflect.TypeFor[http.Client](),
		reflect.TypeFor[http.Transport](), reflect.TypeFor[http.Server]():
		return true
	}
	return false
}

// special writes the types that have a way of their own.
func (r *recorder) special(v reflect.Value) (held any, ok, special bool) {
	t := v.Type()
	if t.Kind() != reflect.Struct {
		return nil, false, false
	}
	switch {
	case never(t):
		return nil, false, true
	case t == reflect.TypeFor[x509.Certificate]():
		raw := v.FieldByName("Raw").Bytes()
		if r.bytes -= len(raw); len(raw) == 0 || r.bytes < 0 {
			return nil, false, true
		}
		return raw, true, true
	case t == reflect.TypeFor[url.Userinfo]():
		user := addressable(v).Addr().Interface().(*url.Userinfo) //nolint:forcetypeassert // its type was asked
		held, ok = r.stringValue(user.String())
		return held, ok, true
	}
	return nil, false, false
}

// rebuildSpecial is the other direction: it sets dst, whose type must be one of them.
func rebuildSpecial(held any, dst reflect.Value) (special bool) {
	switch dst.Type() {
	case reflect.TypeFor[x509.Certificate]():
		if raw, ok := bytesOf(held); ok {
			if cert, err := x509.ParseCertificate(raw); err == nil {
				dst.Set(reflect.ValueOf(cert).Elem())
			}
		}
		return true
	case reflect.TypeFor[url.Userinfo]():
		if text, ok := stringOf(held); ok {
			if u, err := url.Parse("//" + text + "@host"); err == nil && u.User != nil {
				dst.Set(reflect.ValueOf(u.User).Elem())
			}
		}
		return true
	}
	return never(dst.Type())
}
