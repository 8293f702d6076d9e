package journal

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"log/slog"
)

// Key is a secret with a name. It prints as its name.
type Key struct {
	// ID is stored with everything that the key has encrypted: 1 to 255 bytes, and no secret.
	ID string
	// Secret is 16, 24 or 32 bytes (AES-128, -192 or -256) that are random and used for nothing else.
	Secret []byte
}

// String names the key.
func (k Key) String() string { return fmt.Sprintf("key %q", k.ID) }

// Format names the key, whatever the verb.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// LogValue names the key.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText names the key: its secret does not leave by accident.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// KeyError says that a key cannot be used.
type KeyError struct {
	// ID names the key.
	ID string
	// Reason says what is wrong, and what to do.
	Reason string
}

// Error names the key and says what to do.
func (e *KeyError) Error() string { return fmt.Sprintf("pawl: key %q: %s", e.ID, e.Reason) }

// sealVersion is the first byte of what AESGCM stores.
const sealVersion = 1

// AESGCM returns a codec that encrypts with the first key and decrypts with whichever of the keys was used: to change keys,
// put the new one first and keep the old one for as long as there are runs that need it. A bad key is a *KeyError.
//
// What is stored is a version, the key's ID, a random nonce, and the payload under AES-GCM, whose checksum also covers the
// version and the ID. Decoding what another key has encrypted is ErrUnknownKey, and anything that was changed is ErrPayload.
// It hides what a payload says, but not its length; one key is good for 2^32 payloads.
func AESGCM(keys ...Key) (Codec, error) {
	if len(keys) == 0 {
		return nil, &KeyError{Reason: "there is none: give AESGCM at least one key"}
	}
	s := &sealer{first: keys[0].ID, aeads: make(map[string]cipher.AEAD, len(keys))}
	for _, k := range keys {
		if len(k.ID) == 0 || len(k.ID) > 255 {
			return nil, &KeyError{ID: k.ID, Reason: "its ID must have 1 to 255 bytes"}
		}
		if s.aeads[k.ID] != nil {
			return nil, &KeyError{ID: k.ID, Reason: "two keys have this ID: give each its own"}
		}
		block, err := aes.NewCipher(k.Secret)
		if err != nil {
			return nil, &KeyError{ID: k.ID, Reason: fmt.Sprintf("its secret has %d bytes: use 16, 24 or 32", len(k.Secret))}
		}
		if s.aeads[k.ID], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, &KeyError{ID: k.ID, Reason: err.Error()}
		}
	}
	return s, nil
}

type sealer struct {
	first string
	aeads map[string]cipher.AEAD
}

// Encode writes a version, the length of the key's ID, the ID, and what GCM makes of the payload, which begins with the
// nonce.
func (s *sealer) Encode(payload []byte) ([]byte, error) {
	aead := s.aeads[s.first]
	head := make([]byte, 0, 2+len(s.first)+len(payload)+aead.Overhead())
	head = append(append(head, sealVersion, byte(len(s.first))), s.first...) //nolint:gosec // an ID has at most 255 bytes
	return aead.Seal(head, nil, payload, head), nil                          //nolint:gosec // this AEAD draws the nonce itself
}

func (s *sealer) Decode(stored []byte) ([]byte, error) {
	if len(stored) < 2 || stored[0] != sealVersion || len(stored) < 2+int(stored[1]) {
		return nil, fmt.Errorf("%w: it does not begin as an encrypted payload does", ErrPayload)
	}
	head, sealed := stored[:2+int(stored[1])], stored[2+int(stored[1]):]
	id := string(head[2:])
	aead := s.aeads[id]
	if aead == nil {
		return nil, fmt.Errorf("%w: it was encrypted with key %q: give AESGCM that key too", ErrUnknownKey, id)
	}
	if len(sealed) < aead.Overhead() {
		return nil, fmt.Errorf("%w: it is cut", ErrPayload)
	}
	payload, err := aead.Open(nil, nil, sealed, head)
	if err != nil {
		return nil, fmt.Errorf("%w: key %q does not open it", ErrPayload, id)
	}
	return payload, nil
}

// String names the keys' number only, so that a printed codec shows no secret.
func (s *sealer) String() string { return fmt.Sprintf("AES-GCM with %d keys", len(s.aeads)) }
