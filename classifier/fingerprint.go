package classifier

import (
	"crypto/sha256"
	"encoding/hex"
)

// Fingerprint returns the same text for two instances of one failure: the SHA-256, in hex, of msg with what differs
// between instances taken out. That is: numbers, with their units and grouping ("7m12s", "10.0.0.1:443"), times, hex numbers
// and UUIDs, long ids of letters and digits ("req_011CSHoEeqs5"), and URLs. What is quoted is kept, unless it is a
// URL, and so are names with one or two digits ("http2", "search_v2"): two different tools have two fingerprints.
//
// It takes time linear in the length of msg. The empty text has a fingerprint too.
func Fingerprint(msg string) string {
	h := sha256.New()
	n := normalizer{text: msg, out: make([]byte, 0, min(len(msg), 1<<12)+64)}
	for n.pos < len(n.text) {
		n.step()
		if len(n.out) >= 1<<12 {
			h.Write(n.out)
			n.out = n.out[:0]
		}
	}
	h.Write(n.out)
	return hex.EncodeToString(h.Sum(nil))
}
