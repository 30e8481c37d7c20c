package berth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// answers is a server that gives each answer once, in order, and the last one from then on.
type answers struct {
	t      *testing.T
	list   []func(http.ResponseWriter, *http.Request)
	count  int
	keys   []string
	bodies []string
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	a.keys, a.bodies = append(a.keys, r.Header.Get("Idempotency-Key")), append(a.bodies, string(body))
	next := a.list[min(a.count, len(a.list)-1)]
	a.count++
	next(w, r)
}

func status(code int, body string, headers ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func cut(w http.ResponseWriter, _ *http.Request) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = connection.Close()
	}
}

// start returns a client that records its pauses instead of waiting.
func start(t *testing.T, list ...func(http.ResponseWriter, *http.Request)) (*Client, *answers, *[]time.Duration) {
	t.Helper()
	handler := &answers{t: t, list: list}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := New(server.URL, "bk_test", "test")
	if err != nil {
		t.Fatal(err)
	}
	pauses := &[]time.Duration{}
	client.wait = func(ctx context.Context, pause time.Duration) error {
		*pauses = append(*pauses, pause)
		return ctx.Err()
	}
	return client, handler, pauses
}

func TestWaitsAsLongAsTheServerAsks(t *testing.T) {
	client, handler, pauses := start(t, status(429, `{"message":"slow"}`, "Retry-After", "7"),
		status(503, `{}`, "Retry-After", "0"), status(200, `{"id":"x"}`))
	var out struct{ ID string }
	if err := client.Do(context.Background(), Call{Method: "POST", Path: "/a", Body: 1}, &out); err != nil || out.ID != "x" {
		t.Fatal(out, err)
	}
	first, second := (*pauses)[0], (*pauses)[1]
	if handler.count != 3 || first < 7*time.Second || first >= 8*time.Second || second >= time.Second {
		t.Fatal(handler.count, *pauses)
	}
}

func TestSendsAPostAgainOnlyWithAKey(t *testing.T) {
	for _, answer := range []func(http.ResponseWriter, *http.Request){cut, status(502, ""), status(504, ""), status(503, "")} {
		client, handler, _ := start(t, answer, status(200, `{}`))
		if err := client.Do(context.Background(), Call{Method: "POST", Path: "/a"}, nil); err == nil || handler.count != 1 {
			t.Fatal(handler.count, err)
		}
		client, handler, _ = start(t, answer, status(200, `{}`))
		if err := client.Do(context.Background(), Call{Method: "POST", Path: "/a", IdempotencyKey: "k"}, nil); err != nil {
			t.Fatal(err)
		}
		if handler.count != 2 || handler.keys[0] != "k" || handler.keys[1] != "k" {
			t.Fatal(handler.count, handler.keys)
		}
	}
}

func TestEndsAfterItsAttemptsAndWithItsContext(t *testing.T) {
	client, handler, pauses := start(t, status(429, `{"message":"slow"}`))
	if err := client.Do(context.Background(), Call{Method: "GET", Path: "/a"}, nil); err == nil || handler.count != maxAttempts {
		t.Fatal(handler.count, err)
	}
	if last := (*pauses)[len(*pauses)-1]; last > 2*maxRetry {
		t.Fatal(last)
	}
	ctx, cancel := context.WithCancel(context.Background())
	client, _, _ = start(t, func(w http.ResponseWriter, r *http.Request) {
		status(429, `{"message":"slow"}`)(w, r)
	})
	client.wait = func(ctx context.Context, _ time.Duration) error {
		cancel()
		return ctx.Err()
	}
	var answer *Error
	if err := client.Do(ctx, Call{Method: "GET", Path: "/a"}, nil); !errors.As(err, &answer) || answer.Status != 429 {
		t.Fatal(err)
	}
}

func TestReadsErrors(t *testing.T) {
	body := `{"message":"Invalid","code":"BAD_REQUEST","reason":"bad_input","issues":[{"path":["env","A",0],"message":"is wrong"}]}`
	client, _, _ := start(t, status(400, body))
	err := client.Do(context.Background(), Call{Method: "GET", Path: "/a"}, nil)
	if !HasReason(err, "other", "bad_input") || !IsRefusal(err) || IsNotFound(err) || err.Error() != "Invalid\nenv.A.0: is wrong" {
		t.Fatal(err)
	}
	client, _, _ = start(t, status(404, "<html>"))
	if err := client.Do(context.Background(), Call{Method: "GET", Path: "/a"}, nil); !IsNotFound(err) {
		t.Fatal(err)
	}
}

func TestRefusesAddressesThatAreNone(t *testing.T) {
	for _, address := range []string{"", "berth.example.com", "ftp://a", "http://"} {
		if _, err := New(address, "k", "a"); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
}
