package berth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// shop is a server that creates one thing per key and remembers its answers.
type shop struct {
	mutex sync.Mutex
	keys  map[string]int
	// gone are things that are no longer there.
	gone map[string]bool
	// loseAnswers makes it create and then break the connection.
	loseAnswers bool
	refuse      bool
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.refuse {
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"message":"no","reason":"no_capacity"}`)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if _, ok := s.keys[key]; !ok {
		s.keys[key] = len(s.keys) + 1
	}
	if s.loseAnswers {
		cut(w, r)
		return
	}
	fmt.Fprintf(w, `{"id":"t%d"}`, s.keys[key])
}

func open(t *testing.T) (*shop, *Client, string) {
	t.Helper()
	one := &shop{keys: map[string]int{}, gone: map[string]bool{}}
	server := httptest.NewServer(one)
	t.Cleanup(server.Close)
	client, err := New(server.URL, "bk_test", "test")
	if err != nil {
		t.Fatal(err)
	}
	client.wait = func(context.Context, time.Duration) error { return errors.New("no time") }
	return one, client, filepath.Join(t.TempDir(), "creates")
}

func (s *shop) order(body any, token string) Once {
	return Once{
		Kind: "thing", Path: "/things", Body: body, Token: token,
		ID: func(answer json.RawMessage) (string, error) {
			var thing struct{ ID string }
			err := json.Unmarshal(answer, &thing)
			return thing.ID, err
		},
		IsAlive: func(_ context.Context, id string) (bool, error) { return !s.gone[id], nil },
	}
}

func create(t *testing.T, client *Client, journal *Journal, once Once) string {
	t.Helper()
	answer, err := client.CreateOnce(context.Background(), journal, once)
	if err != nil {
		t.Fatal(err)
	}
	id, err := once.ID(answer)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func files(t *testing.T, folder string) int {
	t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(list)
}

// A new journal on the same folder is a new process: the one before was killed.

func TestRepeatsAnInterruptedCreateWithItsKey(t *testing.T) {
	one, client, folder := open(t)
	one.loseAnswers = true
	if _, err := client.CreateOnce(context.Background(), NewJournal(folder), one.order("a", "")); err == nil {
		t.Fatal("an answer that was lost is an error")
	}
	one.loseAnswers = false
	if id := create(t, client, NewJournal(folder), one.order("a", "")); id != "t1" || len(one.keys) != 1 {
		t.Fatal(id, one.keys)
	}
	// Killed again, before the state was written.
	if id := create(t, client, NewJournal(folder), one.order("a", "")); id != "t1" || len(one.keys) != 1 {
		t.Fatal(id, one.keys)
	}
	// Another order is another create.
	if id := create(t, client, NewJournal(folder), one.order("b", "")); id != "t2" {
		t.Fatal(id)
	}
}

func TestCreatesEqualOrdersOfOneApplyEach(t *testing.T) {
	one, client, folder := open(t)
	var group sync.WaitGroup
	journal := NewJournal(folder)
	for range 20 {
		group.Go(func() {
			if _, err := client.CreateOnce(context.Background(), journal, one.order("a", "")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(one.keys) != 20 {
		t.Fatal(len(one.keys))
	}
	ids := map[string]bool{}
	journal = NewJournal(folder)
	for range 20 {
		ids[create(t, client, journal, one.order("a", ""))] = true
	}
	if len(ids) != 20 || len(one.keys) != 20 {
		t.Fatal(ids, len(one.keys))
	}
	if id := create(t, client, journal, one.order("a", "")); ids[id] {
		t.Fatal(id)
	}
}

func TestForgetsCreatesThatTheStateHas(t *testing.T) {
	one, client, folder := open(t)
	journal := NewJournal(folder)
	id := create(t, client, journal, one.order("a", ""))
	if err := journal.Returned("thing", id); err != nil {
		t.Fatal(err)
	}
	// It may be in the state or not, so it is neither used nor ordered again.
	var perhaps *PerhapsInState
	if _, err := client.CreateOnce(context.Background(), NewJournal(folder), one.order("a", "")); !errors.As(err, &perhaps) || perhaps.ID != id {
		t.Fatal(err)
	}
	if err := NewJournal(folder).Settle("other", id); err != nil || files(t, folder) != 1 {
		t.Fatal(err)
	}
	if err := NewJournal(folder).Settle("thing", id); err != nil || files(t, folder) != 0 {
		t.Fatal(err, files(t, folder))
	}
	if next := create(t, client, NewJournal(folder), one.order("a", "")); next == id {
		t.Fatal(next)
	}
}

func TestOrdersAgainWhatHasEnded(t *testing.T) {
	one, client, folder := open(t)
	first := create(t, client, NewJournal(folder), one.order("a", ""))
	one.gone[first] = true
	if second := create(t, client, NewJournal(folder), one.order("a", "")); second == first {
		t.Fatal(second)
	}
	journal := NewJournal(folder)
	if err := journal.Returned("thing", "t2"); err != nil {
		t.Fatal(err)
	}
	one.gone["t2"] = true
	if third := create(t, client, journal, one.order("a", "")); third != "t3" {
		t.Fatal(third)
	}
}

func TestForgetsRefusedCreatesAndOldKeys(t *testing.T) {
	one, client, folder := open(t)
	one.refuse = true
	if _, err := client.CreateOnce(context.Background(), NewJournal(folder), one.order("a", "")); !HasReason(err, "no_capacity") {
		t.Fatal(err)
	}
	if files(t, folder) != 0 {
		t.Fatal(files(t, folder))
	}
	one.refuse = false
	create(t, client, NewJournal(folder), one.order("a", ""))
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-keyLife - time.Minute)
	if err := os.Chtimes(filepath.Join(folder, list[0].Name()), past, past); err != nil {
		t.Fatal(err)
	}
	if id := create(t, client, NewJournal(folder), one.order("a", "")); id != "t2" || files(t, folder) != 1 {
		t.Fatal(id, files(t, folder))
	}
}

func TestATokenNeedsNoJournal(t *testing.T) {
	one, client, folder := open(t)
	first := create(t, client, NewJournal(folder), one.order("a", "prod-1"))
	if again := create(t, client, NewJournal(t.TempDir()), one.order("a", "prod-1")); again != first || files(t, folder) != 0 {
		t.Fatal(again)
	}
	if other := create(t, client, NewJournal(folder), one.order("a", "prod-2")); other == first {
		t.Fatal(other)
	}
	one.gone[first] = true
	next := create(t, client, NewJournal(folder), one.order("a", "prod-1"))
	if next == first || create(t, client, NewJournal(folder), one.order("a", "prod-1")) != next {
		t.Fatal(next)
	}
}

func TestTheFolderHoldsNoPartOfAnOrder(t *testing.T) {
	one, client, folder := open(t)
	create(t, client, NewJournal(folder), one.order(map[string]string{"password": "hunter2"}, ""))
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if string(content) != "thing.t1" {
			t.Errorf("%s has %q", path, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var _ http.Handler = (*shop)(nil)
