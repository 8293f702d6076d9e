package classifier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

func TestMessageLeavesBodiesOut(t *testing.T) {
	page := "<html>" + strings.Repeat("secret ", 1000) + "</html>"
	e := R(524, &json.SyntaxError{}, page)
	e.HTTPStatus = "524 A Timeout Occurred"
	for name, err := range map[string]error{
		"bare":    e,
		"wrapped": fmt.Errorf("node: %w", e),
		"twice":   fmt.Errorf("%w, then %w", e, R(502, nil, page)),
		"joined":  errors.Join(errors.New("x"), e),
		"marked":  classifier.Transient(e),
	} {
		t.Run(name, func(t *testing.T) {
			got := classifier.Message(err)
			require.NotContains(t, got, "html")
			require.NotContains(t, got, "secret")
			require.Contains(t, got, "status code: 524, status: 524 A Timeout Occurred, message: ")
		})
	}
}

func TestMessageIsElseTheText(t *testing.T) {
	require.Empty(t, classifier.Message(nil))
	for _, err := range []error{errors.New("x"), A(404), R(404, errors.New("y"), ""), fmt.Errorf("a: %w", A(500))} {
		require.Equal(t, strings.TrimSuffix(err.Error(), ", body: "), classifier.Message(err))
	}
	require.Equal(t, "classifier_test.hostile", classifier.Message(hostile{}))
	require.Equal(t, "*openai.APIError", classifier.Message((*openai.APIError)(nil)))
}

func TestBodiesDoNotChangeTheFingerprint(t *testing.T) {
	c := classifier.Default()
	require.Equal(t, c.Classify(R(524, nil, "<html>a</html>")), c.Classify(R(524, nil, "<p>b</p>")))
}
