// Verify judges a bundle or a receipt by its documented format alone, with the tree and the notes of Go's
// own checksum database. It shares no line with the program it judges.
//
//	verify bundle DIR VKEY
//	verify receipt FILE VKEY
//
// It prints `ok` and exits 0, or says what is wrong and exits 1. A bundle has to be of a whole log.
package main

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	erasure    = "payload.erased"
)

type entry struct {
	Log      string            `json:"log"`
	Seq      int64             `json:"seq"`
	Prev     string            `json:"prev"`
	Type     string            `json:"type"`
	Body     json.RawMessage   `json:"body"`
	Payloads map[string]string `json:"payloads"`
}

type payload struct {
	Content string `json:"content"`
	Name    string `json:"name"`
	Salt    string `json:"salt"`
	Seq     int64  `json:"seq"`
}

type manifest struct {
	Files map[string]struct {
		Bytes  int64  `json:"bytes"`
		Sha256 string `json:"sha256"`
	} `json:"files"`
	Part struct {
		Kind string `json:"kind"`
	} `json:"part"`
	Size     int64              `json:"size"`
	Withheld map[string][]int64 `json:"withheld"`
}

// place names one payload.
type place struct {
	seq  int64
	name string
}

type receipt struct {
	Checkpoint string `json:"checkpoint"`
	Entries    []struct {
		Entry string `json:"entry"`
		Path  []int  `json:"path"`
	} `json:"entries"`
	Hashes   []string  `json:"hashes"`
	Payloads []payload `json:"payloads"`
}

func main() {
	if len(os.Args) != 4 {
		fail("usage: verify bundle|receipt PATH VKEY")
	}
	verifier, err := note.NewVerifier(os.Args[3])
	check(err, "key")
	switch os.Args[1] {
	case "bundle":
		judgeBundle(os.Args[2], verifier)
	case "receipt":
		judgeReceipt(os.Args[2], verifier)
	default:
		fail("judge a bundle or a receipt")
	}
	fmt.Println("ok")
}

func judgeBundle(dir string, verifier note.Verifier) {
	listed := judgeManifest(dir, verifier)
	tree := head(read(dir, "checkpoint"), verifier)
	lines := segments(dir, "entries")
	if int64(len(lines)) != tree.N {
		fail("%d entries, and the checkpoint covers %d", len(lines), tree.N)
	}
	entries, reader := follow(lines, verifier.Name())
	compareRoot(tree, reader)
	for _, name := range names(dir, "checkpoints") {
		older := head(read(dir, "checkpoints/"+name), verifier)
		compareRoot(older, reader)
		proof, err := tlog.ProveTree(tree.N, older.N, reader)
		check(err, "consistency of "+name)
		check(tlog.CheckTree(proof, tree.N, tree.Hash, older.N, older.Hash), "consistency of "+name)
	}
	proveByTiles(dir, tree, lines)
	judgePayloads(segments(dir, "payloads"), entries, listed.Withheld)
}

func judgePayloads(lines [][]byte, entries map[int64]entry, withheld map[string][]int64) {
	known := map[place]bool{}
	for name, positions := range withheld {
		for _, seq := range positions {
			known[place{seq, name}] = true
		}
	}
	for _, line := range lines {
		var beside payload
		check(json.Unmarshal(line, &beside), "payload")
		at := place{beside.Seq, beside.Name}
		if known[at] {
			fail("payload %s of entry %d is here twice, or was to be withheld", at.name, at.seq)
		}
		known[at] = true
		compareCommitment(beside, entries)
	}
	for _, one := range entries {
		for _, at := range erased(one) {
			known[at] = true
		}
	}
	for seq, one := range entries {
		for name := range one.Payloads {
			if !known[place{seq, name}] {
				fail("payload %s of entry %d is missing", name, seq)
			}
		}
	}
}

// erased tells which payloads of earlier entries an entry records the erasure of.
func erased(one entry) (found []place) {
	if one.Type != erasure {
		return nil
	}
	var body struct {
		Targets [][2]json.RawMessage `json:"targets"`
	}
	check(json.Unmarshal(one.Body, &body), "erasure")
	for _, target := range body.Targets {
		var seq int64
		var names []string
		check(json.Unmarshal(target[0], &seq), "erasure")
		check(json.Unmarshal(target[1], &names), "erasure")
		for _, name := range names {
			if seq < one.Seq {
				found = append(found, place{seq, name})
			}
		}
	}
	return found
}

func judgeManifest(dir string, verifier note.Verifier) (listed manifest) {
	raw := read(dir, "manifest.json")
	signed, err := note.Open(read(dir, "manifest.sig"), note.VerifierList(verifier))
	check(err, "manifest.sig")
	sum := sha256.Sum256(raw)
	text := strings.Split(signed.Text, "\n")
	if len(text) != 4 || text[1] != verifier.Name() || text[2] != hex.EncodeToString(sum[:]) {
		fail("manifest.sig signs another manifest")
	}
	check(json.Unmarshal(raw, &listed), "manifest")
	if listed.Part.Kind != "log" {
		fail("bundle is of a part, and this judges whole logs")
	}
	for name, file := range listed.Files {
		content := read(dir, name)
		sum := sha256.Sum256(content)
		if int64(len(content)) != file.Bytes || hex.EncodeToString(sum[:]) != file.Sha256 {
			fail("%s is not the file that the manifest lists", name)
		}
	}
	if covered := head(read(dir, "checkpoint"), verifier); covered.N != listed.Size {
		fail("manifest says %d entries, its checkpoint %d", listed.Size, covered.N)
	}
	return listed
}

// head opens a signed checkpoint.
func head(raw []byte, verifier note.Verifier) tlog.Tree {
	signed, err := note.Open(raw, note.VerifierList(verifier))
	check(err, "checkpoint")
	lines := strings.Split(signed.Text, "\n")
	if len(lines) < 4 || lines[0] != verifier.Name() {
		fail("checkpoint is of another log")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	check(err, "size of a checkpoint")
	root, err := base64.StdEncoding.DecodeString(lines[2])
	check(err, "root of a checkpoint")
	tree := tlog.Tree{N: size}
	if copy(tree.Hash[:], root) != len(tree.Hash) || len(root) != len(tree.Hash) {
		fail("root of a checkpoint has %d bytes", len(root))
	}
	return tree
}

// follow links the entries and grows the tree over them.
func follow(lines [][]byte, log string) (map[int64]entry, tlog.HashReader) {
	entries := map[int64]entry{}
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			if index >= int64(len(stored)) {
				return nil, fmt.Errorf("no hash %d", index)
			}
			found[i] = stored[index]
		}
		return found, nil
	})
	previous := ""
	for number, line := range lines {
		var read entry
		check(json.Unmarshal(line, &read), fmt.Sprintf("entry %d", number))
		if read.Seq != int64(number) || read.Log != log {
			fail("entry %d calls itself %d of %s", number, read.Seq, read.Log)
		}
		if number > 0 && read.Prev != previous {
			fail("entry %d does not follow from the one before", number)
		}
		leaf := tlog.RecordHash(line)
		previous = hex.EncodeToString(leaf[:])
		added, err := tlog.StoredHashesForRecordHash(int64(number), leaf, reader)
		check(err, "tree")
		stored = append(stored, added...)
		entries[read.Seq] = read
	}
	return entries, reader
}

func compareRoot(tree tlog.Tree, reader tlog.HashReader) {
	root, err := tlog.TreeHash(tree.N, reader)
	check(err, "root")
	if root != tree.Hash {
		fail("root over %d entries differs from the checkpoint's", tree.N)
	}
}

type tiles struct{ dir string }

func (t tiles) Height() int                     { return tileHeight }
func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	var found [][]byte
	for _, tile := range wanted {
		path := strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/", tileHeight), "tile/", 1)
		content, err := os.ReadFile(filepath.Join(t.dir, path))
		if err != nil {
			return nil, err
		}
		found = append(found, content)
	}
	return found, nil
}

// proveByTiles proves entries by the bundle's tiles, as somebody who has nothing else would: all of them in a
// small log, and in a large one at least one of each tile, which is read and compared as a whole.
func proveByTiles(dir string, tree tlog.Tree, lines [][]byte) {
	reader := tlog.TileHashReader(tree, tiles{dir})
	step := len(lines)/500 + 1
	if step > tileWidth {
		step = tileWidth
	}
	for number := 0; number < len(lines); number += step {
		proof, err := tlog.ProveRecord(tree.N, int64(number), reader)
		check(err, fmt.Sprintf("tiles for entry %d", number))
		leaf := tlog.RecordHash(lines[number])
		check(tlog.CheckRecord(proof, tree.N, tree.Hash, int64(number), leaf), "inclusion by tiles")
	}
}

func judgeReceipt(file string, verifier note.Verifier) {
	var given receipt
	check(json.Unmarshal(read("", file), &given), "receipt")
	tree := head([]byte(given.Checkpoint), verifier)
	entries := map[int64]entry{}
	for _, item := range given.Entries {
		var one entry
		check(json.Unmarshal([]byte(item.Entry), &one), "entry")
		if one.Log != verifier.Name() {
			fail("entry %d is of another log", one.Seq)
		}
		var proof tlog.RecordProof
		for _, index := range item.Path {
			if index < 0 || index >= len(given.Hashes) {
				fail("no hash %d", index)
			}
			proof = append(proof, parseHash(given.Hashes[index]))
		}
		leaf := tlog.RecordHash([]byte(item.Entry))
		check(tlog.CheckRecord(proof, tree.N, tree.Hash, one.Seq, leaf), "inclusion")
		entries[one.Seq] = one
	}
	if len(entries) == 0 {
		fail("receipt of nothing")
	}
	for _, beside := range given.Payloads {
		compareCommitment(beside, entries)
	}
}

func compareCommitment(beside payload, entries map[int64]entry) {
	salt, err := hex.DecodeString(beside.Salt)
	check(err, "salt")
	seal := hmac.New(sha256.New, salt)
	seal.Write([]byte("governance/payload/v1\x00" + beside.Name + "\x00" + beside.Content))
	if entries[beside.Seq].Payloads[beside.Name] != hex.EncodeToString(seal.Sum(nil)) {
		fail("payload %s of entry %d is not what was committed to", beside.Name, beside.Seq)
	}
}

func parseHash(text string) (hash tlog.Hash) {
	raw, err := hex.DecodeString(text)
	if err != nil || copy(hash[:], raw) != len(hash) || len(raw) != len(hash) {
		fail("malformed hash %q", text)
	}
	return hash
}

// segments gives the lines of all files of a folder of the bundle, in order.
func segments(dir, folder string) [][]byte {
	var lines [][]byte
	for _, name := range names(dir, folder) {
		content := read(dir, folder+"/"+name)
		if len(content) > 0 && !bytes.HasSuffix(content, []byte("\n")) {
			fail("%s/%s ends within a line", folder, name)
		}
		scanner := bufio.NewScanner(bytes.NewReader(content))
		scanner.Buffer(nil, 64*1024*1024)
		for scanner.Scan() {
			lines = append(lines, append([]byte(nil), scanner.Bytes()...))
		}
		check(scanner.Err(), name)
	}
	return lines
}

func names(dir, folder string) []string {
	found, err := os.ReadDir(filepath.Join(dir, folder))
	check(err, folder)
	var listed []string
	for _, item := range found {
		listed = append(listed, item.Name())
	}
	sort.Strings(listed)
	return listed
}

func read(dir, name string) []byte {
	content, err := os.ReadFile(filepath.Join(dir, name))
	check(err, name)
	return content
}

func check(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func fail(format string, values ...interface{}) {
	fmt.Printf(format+"\n", values...)
	os.Exit(1)
}
