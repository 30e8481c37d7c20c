// Creates that happen once, also when the program was killed before its state was written. The state cannot remember
// such a create, and neither can the plan. So a journal in the working folder has one file per create: it is written
// before the request, with the Idempotency-Key as its name, and removed when a later run sees the thing in its state.
// A repeated apply finds the file of the same order and sends it again with the same key.
package berth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// The server keeps the answer for a key for 24 hours.
	keyLife        = 23 * time.Hour
	maxGenerations = 100
	journalFolder  = "berth-creates"
)

// Journal is the folder of creates whose result may be missing from the state.
type Journal struct {
	folder string
	mutex  sync.Mutex
	// inUse are the keys of this process.
	inUse map[string]bool
}

// OpenJournal returns the journal of the working folder, beside the other files that the program keeps there.
func OpenJournal() *Journal {
	data := os.Getenv("TF_DATA_DIR")
	if data == "" {
		data = ".terraform"
	}
	return NewJournal(filepath.Join(data, journalFolder))
}

// NewJournal returns the journal in a folder, which need not exist.
func NewJournal(folder string) *Journal {
	return &Journal{folder: folder, inUse: map[string]bool{}}
}

// Once describes a create.
type Once struct {
	Kind string
	Path string
	Body any
	// Token is the customer's own name for this create: with it, no journal is needed. May be empty.
	Token string
	// ID reads the answer.
	ID func(answer json.RawMessage) (string, error)
	// IsAlive tells whether the thing with this ID is still there.
	IsAlive func(ctx context.Context, id string) (bool, error)
}

// CreateOnce sends the create, or returns the answer that it got before.
func (c *Client) CreateOnce(ctx context.Context, journal *Journal, once Once) (json.RawMessage, error) {
	if once.Token != "" {
		return c.createByToken(ctx, once)
	}
	body, err := json.Marshal(once.Body)
	if err != nil {
		return nil, err
	}
	fingerprint := c.fingerprint(once.Kind, string(body))
	for range maxGenerations {
		entry, err := journal.claim(fingerprint)
		if err != nil {
			return nil, fmt.Errorf("cannot keep the journal of creates: %w", err)
		}
		if entry.isOld && entry.hasReturned {
			isAlive, err := once.IsAlive(ctx, entry.id)
			if err != nil {
				return nil, err
			}
			if isAlive {
				return nil, &PerhapsInState{Kind: once.Kind, ID: entry.id, File: entry.file}
			}
			if err := entry.forget(); err != nil {
				return nil, err
			}
			continue
		}
		answer, err := c.createWithKey(ctx, once, entry.key)
		if err != nil {
			if IsRefusal(err) {
				return nil, errors.Join(err, entry.forget())
			}
			return nil, err
		}
		id, err := once.ID(answer)
		if err != nil {
			return nil, err
		}
		if entry.isOld {
			isAlive, err := once.IsAlive(ctx, id)
			if err != nil {
				return nil, err
			}
			if !isAlive {
				if err := entry.forget(); err != nil {
					return nil, err
				}
				continue
			}
		}
		return answer, entry.record(once.Kind, id)
	}
	return nil, fmt.Errorf("the journal %s has too many creates of the same order", journal.folder)
}

// createByToken uses the first key of the token whose thing has not ended.
func (c *Client) createByToken(ctx context.Context, once Once) (json.RawMessage, error) {
	for generation := range maxGenerations {
		key := c.fingerprint(once.Kind, once.Token, fmt.Sprint(generation))
		answer, err := c.createWithKey(ctx, once, key)
		if err != nil {
			return nil, err
		}
		id, err := once.ID(answer)
		if err != nil {
			return nil, err
		}
		isAlive, err := once.IsAlive(ctx, id)
		if err != nil || isAlive {
			return answer, err
		}
	}
	return nil, fmt.Errorf("client_token was used for more than %d orders in one day", maxGenerations)
}

func (c *Client) createWithKey(ctx context.Context, once Once, key string) (json.RawMessage, error) {
	var answer json.RawMessage
	err := c.Do(ctx, Call{Method: http.MethodPost, Path: once.Path, Body: once.Body, IdempotencyKey: key}, &answer)
	return answer, err
}

// fingerprint is keyed, because a body may contain a password.
func (c *Client) fingerprint(parts ...string) string {
	mac := hmac.New(sha256.New, []byte(c.key))
	for _, part := range append([]string{c.base}, parts...) {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// PerhapsInState is a create that was complete, but no later run has told whether the state has its result.
type PerhapsInState struct{ Kind, ID, File string }

func (e *PerhapsInState) Error() string {
	return fmt.Sprintf("An earlier apply in this folder created %s %s for exactly this order, and nothing tells whether the "+
		"state has it. If it does, run a plan without -target, which notices it. If it does not, because that apply was "+
		"interrupted, import it with its ID %s. To order another one, delete %s.", e.Kind, e.ID, e.ID, e.File)
}

// entry is one file: FINGERPRINT.KEY while the create is under way, FINGERPRINT.KEY.KIND.ID once it has returned.
type entry struct {
	journal     *Journal
	file        string
	key         string
	id          string
	isOld       bool
	hasReturned bool
}

func (j *Journal) claim(fingerprint string) (*entry, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	files, err := os.ReadDir(j.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, file := range files {
		parts := strings.SplitN(file.Name(), ".", 4)
		if len(parts) < 2 || parts[0] != fingerprint || j.inUse[parts[1]] {
			continue
		}
		info, err := file.Info()
		if err != nil {
			return nil, err
		}
		one := &entry{journal: j, file: filepath.Join(j.folder, file.Name()), key: parts[1], isOld: true}
		if len(parts) == 4 {
			one.hasReturned, one.id = true, parts[3]
		} else if time.Since(info.ModTime()) > keyLife {
			// The server has forgotten the key.
			if err := os.Remove(one.file); err != nil {
				return nil, err
			}
			continue
		}
		j.inUse[one.key] = true
		return one, nil
	}
	return j.begin(fingerprint)
}

func (j *Journal) begin(fingerprint string) (*entry, error) {
	if err := os.MkdirAll(j.folder, 0o700); err != nil {
		return nil, err
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	one := &entry{journal: j, key: hex.EncodeToString(random)}
	one.file = filepath.Join(j.folder, fingerprint+"."+one.key)
	file, err := os.OpenFile(one.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return nil, err
	}
	j.inUse[one.key] = true
	return one, nil
}

// record notes which thing the create has made. The name of the file changes only when the create returns.
func (e *entry) record(kind, id string) error {
	return os.WriteFile(e.file, []byte(kind+"."+id), 0o600)
}

func (e *entry) forget() error {
	err := os.Remove(e.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Returned notes that the state is about to have the thing. From here on its create is not repeated by itself, because
// the state may have been written.
func (j *Journal) Returned(kind, id string) error {
	return j.each(func(file string, parts []string) error {
		if len(parts) != 2 {
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil || string(content) != kind+"."+id {
			return err
		}
		return os.Rename(file, file+"."+kind+"."+id)
	})
}

// Settle forgets the create of a thing that is in the state, or no longer there.
func (j *Journal) Settle(kind, id string) error {
	return j.each(func(file string, parts []string) error {
		if len(parts) != 4 || parts[2] != kind || parts[3] != id {
			return nil
		}
		return os.Remove(file)
	})
}

func (j *Journal) each(visit func(file string, parts []string) error) error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	files, err := os.ReadDir(j.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		parts := strings.SplitN(file.Name(), ".", 4)
		if err := visit(filepath.Join(j.folder, file.Name()), parts); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
