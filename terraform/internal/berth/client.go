// Package berth is a small client of Berth's HTTP API: one call that retries what may be retried.
package berth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"
)

const (
	maxAttempts       = 40
	maxAnswerBytes    = 16 << 20
	requestTimeout    = 60 * time.Second
	firstRetry        = 500 * time.Millisecond
	maxRetry          = 15 * time.Second
	maxRetryAfter     = 5 * time.Minute
	maxIdleConnection = 16
)

// Client calls one server with one API key. It logs methods, paths and statuses, never bodies or headers.
type Client struct {
	base      string
	key       string
	userAgent string
	http      *http.Client
	// wait returns early with an error when the context ends.
	wait func(context.Context, time.Duration) error
}

// New returns a client of the server at base.
func New(base, key, userAgent string) (*Client, error) {
	address, err := url.Parse(base)
	if err != nil || address.Host == "" || (address.Scheme != "https" && address.Scheme != "http") {
		return nil, fmt.Errorf("the address of the server must be a URL such as https://berth.example.com")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxIdleConnection
	return &Client{
		base:      strings.TrimRight(base, "/"),
		key:       key,
		userAgent: userAgent,
		http:      &http.Client{Transport: transport, Timeout: requestTimeout},
		wait:      wait,
	}, nil
}

// Call is one request.
type Call struct {
	Method string
	Path   string
	Query  url.Values
	Body   any
	// IdempotencyKey makes a POST safe to send again.
	IdempotencyKey string
}

// Do sends a call and decodes the answer into out, unless that is nil. It waits as long as the server asks, and tries
// again where nothing can happen twice: a POST without a key is sent again only if the server did not take it.
func (c *Client) Do(ctx context.Context, call Call, out any) error {
	var body []byte
	if call.Body != nil {
		text, err := json.Marshal(call.Body)
		if err != nil {
			return err
		}
		body = text
	}
	for attempt := 1; ; attempt++ {
		answer, err := c.send(ctx, call, body)
		if err == nil {
			if out == nil {
				return nil
			}
			return json.Unmarshal(answer, out)
		}
		pause, again := retryAfter(call, err, attempt)
		if !again {
			return err
		}
		if c.wait(ctx, pause) != nil {
			return fmt.Errorf("%w (and no time was left to try again)", err)
		}
	}
}

func (c *Client) send(ctx context.Context, call Call, body []byte) ([]byte, error) {
	address := c.base + call.Path
	if len(call.Query) > 0 {
		address += "?" + call.Query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, call.Method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	request.Header.Set("User-Agent", c.userAgent)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if call.IdempotencyKey != "" {
		request.Header.Set("Idempotency-Key", call.IdempotencyKey)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, &NoAnswer{err}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, &NoAnswer{err}
	}
	tflog.Debug(ctx, "berth", map[string]any{"method": call.Method, "path": call.Path, "status": response.StatusCode})
	if response.StatusCode >= 200 && response.StatusCode < 300 {
		return answer, nil
	}
	return nil, readError(response, answer)
}

// NoAnswer says that it is unknown what happened: the connection broke.
type NoAnswer struct{ cause error }

func (e *NoAnswer) Error() string { return "no answer from the server: " + e.cause.Error() }
func (e *NoAnswer) Unwrap() error { return e.cause }

// Error is an answer with a status that is not a success.
type Error struct {
	Status  int
	Code    string `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Issues  []Issue
	// RetryAfter is zero if the server named no time.
	RetryAfter time.Duration
	hasRetry   bool
}

// Issue is one field of a request that the server does not accept.
type Issue struct {
	Path    []any  `json:"path"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	text := e.Message
	for _, issue := range e.Issues {
		words := make([]string, len(issue.Path))
		for i, step := range issue.Path {
			words[i] = fmt.Sprint(step)
		}
		text += fmt.Sprintf("\n%s: %s", strings.Join(words, "."), issue.Message)
	}
	return text
}

// HasReason tells whether err is an answer with one of these reasons.
func HasReason(err error, reasons ...string) bool {
	var answer *Error
	if !errors.As(err, &answer) {
		return false
	}
	for _, reason := range reasons {
		if answer.Reason == reason {
			return true
		}
	}
	return false
}

// IsNotFound tells whether the server says that the thing is not there.
func IsNotFound(err error) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Status == http.StatusNotFound
}

// IsRefusal tells whether the server certainly did nothing.
func IsRefusal(err error) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Status < 500
}

func readError(response *http.Response, answer []byte) error {
	problem := &Error{}
	if err := json.Unmarshal(answer, problem); err != nil || problem.Message == "" {
		problem.Message = "the server answered " + response.Status
	}
	problem.Status = response.StatusCode
	if text := response.Header.Get("Retry-After"); text != "" {
		if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
			problem.RetryAfter, problem.hasRetry = time.Duration(seconds)*time.Second, true
		} else if at, err := http.ParseTime(text); err == nil {
			problem.RetryAfter, problem.hasRetry = max(0, time.Until(at)), true
		}
	}
	return problem
}

// retryAfter says how long to wait before the next attempt, if there is one. Many resources are refused together, so a
// random part keeps them from coming back together.
func retryAfter(call Call, err error, attempt int) (time.Duration, bool) {
	if attempt >= maxAttempts {
		return 0, false
	}
	backoff := min(firstRetry<<min(attempt-1, 10), maxRetry)
	backoff = backoff/2 + rand.N(backoff)
	isSafe := call.Method != http.MethodPost || call.IdempotencyKey != ""
	var lost *NoAnswer
	if errors.As(err, &lost) {
		return backoff, isSafe
	}
	var answer *Error
	if !errors.As(err, &answer) {
		return 0, false
	}
	switch answer.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if answer.hasRetry {
			return min(answer.RetryAfter, maxRetryAfter) + rand.N(time.Second), true
		}
		return backoff, isSafe || answer.Status == http.StatusTooManyRequests
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return backoff, isSafe
	}
	return 0, false
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Wait pauses, or returns an error when the context ends.
func (c *Client) Wait(ctx context.Context, pause time.Duration) error { return c.wait(ctx, pause) }
