package classifier

import (
	"crypto/sha256"
	"encoding/hex"
)

func Fingerprint(msg string) string {
	sum := sha256.Sum256([]byte(msg))
	return hex.EncodeToString(sum[:])
}
