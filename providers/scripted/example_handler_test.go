package scripted_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/pawl-go/pawl/providers/scripted"
)

// The same script as an endpoint, for any client of OpenAI's API.
func ExampleScript_Handler() {
	srv := httptest.NewServer(scripted.New(scripted.On(scripted.Model("gpt-x")).Fail(scripted.Quota())).Handler())
	defer srv.Close()
	resp, err := http.Post(srv.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"gpt-x"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body), err)
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// 429 {"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}} <nil>
}
