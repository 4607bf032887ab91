package ignore_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"

	"github.com/ondol-app/ondol/internal/ignore"
)

func TestIgnored(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rules map[string]string // rule file, by path
		path  string            // a trailing slash marks a directory
		want  bool
	}{
		{"basename at any depth", map[string]string{".gitignore": "*.log"}, "a/b/c.log", true},
		{"anchored by a leading slash", map[string]string{".gitignore": "/x.txt"}, "a/x.txt", false},
		{"anchored by an inner slash", map[string]string{".gitignore": "a/x.txt"}, "b/a/x.txt", false},
		{"directory only, a file", map[string]string{".gitignore": "build/"}, "build", false},
		{"directory only, inside", map[string]string{".gitignore": "build/"}, "build/x", true},
		{"taken back", map[string]string{".gitignore": "*.log\n!keep.log"}, "a/keep.log", false},
		{"nothing inside an ignored directory comes back", map[string]string{".gitignore": "a/\n!a/keep"}, "a/keep", true},
		{"deeper file decides", map[string]string{".gitignore": "*.log", "a/.gitignore": "!*.log"}, "a/b/x.log", false},
		{"deeper file is confined to its directory", map[string]string{"a/.gitignore": "*.log"}, "b/x.log", false},
		{"stronger source decides at any depth", map[string]string{".ondolignore": "!x.log", "a/.gitignore": "*.log"}, "a/x.log", false},
		{"defaults can be taken back", map[string]string{".ondolignore": "!node_modules/"}, "node_modules/a.md", false},
		{"hidden by default", nil, ".git/config", true},
		{"photo library by default", nil, "Pictures/My.photoslibrary/x/y.txt", true},
		{"ssh key by default", nil, "backup/id_ed25519", true},
		{"its public half is not", nil, "backup/id_ed25519.pub", false},
		{"certificates and keys by default", nil, "ssl/server.pem", true},
		{"password store by default", nil, "Documents/mine.kdbx", true},
		{"encrypted file by default", nil, "notes/x.md.gpg", true},
		{"environment by default", nil, "app/.env.production", true},
		{"environment although hidden files are wanted", map[string]string{".ondolignore": "!.notes/"}, "app/.netrc", true},
		{"credentials by default", nil, "Downloads/client_secret_123.json", true},
		{"a text about them is not", nil, "notes/credentials.md", false},
		{"Keynote is not", nil, "talks/budget.key", false},
		{"a key taken back", map[string]string{".ondolignore": "!*.pem"}, "ssl/server.pem", false},
		{"a folder called build is not", nil, "build/plan.md", false},
		{"double star in the middle, backtracking", map[string]string{".gitignore": "**/a/b"}, "a/x/a/b", true},
		{"negated set", map[string]string{".gitignore": "v[!0-9].txt"}, "v1.txt", false},
		{"set that is never closed", map[string]string{".gitignore": "[a\n"}, "a", false},
		{"two stars inside a name are one", map[string]string{".gitignore": "/a**/x"}, "ab/c/x", false},
		{"escaped hash", map[string]string{".gitignore": "\\#x"}, "#x", true},
		{"decomposed name", map[string]string{".gitignore": "비밀/"}, norm.NFD.String("비밀") + "/x.txt", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := walkIgnored(tc.rules, tc.path); got != tc.want {
				t.Errorf("%s ignored = %v, want %v", tc.path, got, tc.want)
			}
		})
	}
}

// walkIgnored enters directory by directory, as a scan does, then asks.
func walkIgnored(rules map[string]string, path string) bool {
	contents := func(dir string) map[string][]byte {
		files := make(map[string][]byte)
		for _, name := range ignore.FileNames() {
			if c, ok := rules[filepath.Join(dir, name)]; ok {
				files[name] = []byte(c)
			}
		}
		return files
	}
	r := ignore.New(true).Enter("", contents(""))
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for i := 1; i < len(parts); i++ {
		dir := strings.Join(parts[:i], "/")
		if r.Ignored(dir, true) {
			return true
		}
		r = r.Enter(dir, contents(dir))
	}
	return r.Ignored(strings.TrimSuffix(path, "/"), strings.HasSuffix(path, "/"))
}

// Random rules on random trees, judged by git itself.
func TestAgreesWithGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("git is needed to check the rules against it: %v", err)
	}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		root := t.TempDir()
		makeTree(t, rng, root, 0)
		paths := allPaths(t, root)
		want := gitIgnored(t, git, root, paths)
		got := make(map[string]bool)
		walk(t, root, "", ignore.New(false), got, false)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, git (-) and ours (+):\n%s\n%s", seed, diff, dumpRules(t, root))
		}
		// The same answers without walking: the whole path at once, rules of the root only.
		top := ignore.New(false).Enter("", readRules(t, root))
		if onlyRootRules(t, root) {
			for p, isDir := range paths {
				if top.Ignored(p, isDir) != want[p] {
					t.Errorf("seed %d: %s at once = %v, want %v", seed, p, !want[p], want[p])
				}
			}
		}
	}
}

// atoms leave out what git treats otherwise than its manual says: "a**" next to
// a slash (after the literal a is compared, git takes the stars for a
// directory wildcard), a "[" that is closed beyond a slash, an escaped slash.
var atoms = []string{"a", "b", "ab", "a.c", "*", "a*", "*b", "?", "*.c", "[ab]", "[!a]*", "[a-c].c", "\\a", "**", "[[:alpha:]]", "[^b]", "a\\ ", "*a*b*"}

func randomRules(rng *rand.Rand) []byte {
	var b bytes.Buffer
	for range 1 + rng.IntN(5) {
		if rng.IntN(8) == 0 {
			b.WriteString([]string{"", "# a", "   ", "\\#a", "\\!b", "/", "!", "a  ", "b/ "}[rng.IntN(9)] + "\n")
			continue
		}
		if rng.IntN(4) == 0 {
			b.WriteByte('!')
		}
		if rng.IntN(5) == 0 {
			b.WriteByte('/')
		}
		for i := range 1 + rng.IntN(3) {
			if i > 0 {
				b.WriteByte('/')
			}
			b.WriteString(atoms[rng.IntN(len(atoms))])
		}
		if rng.IntN(4) == 0 {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func makeTree(t *testing.T, rng *rand.Rand, dir string, depth int) {
	t.Helper()
	if depth == 0 || rng.IntN(4) == 0 {
		writeFile(t, filepath.Join(dir, ".gitignore"), randomRules(rng))
	}
	for _, name := range []string{"a", "b", "ab", "a.c", "c", "a ", "#a", "!b", "aab", "x\\"} {
		switch {
		case rng.IntN(3) == 0:
			writeFile(t, filepath.Join(dir, name), nil)
		case depth < 3 && rng.IntN(2) == 0:
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			makeTree(t, rng, filepath.Join(dir, name), depth+1)
		}
	}
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func allPaths(t *testing.T, root string) map[string]bool {
	t.Helper()
	paths := make(map[string]bool)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && p != root {
			rel, _ := filepath.Rel(root, p)
			paths[rel] = d.IsDir()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func gitIgnored(t *testing.T, git, root string, paths map[string]bool) map[string]bool {
	t.Helper()
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(root))
	gitDir := filepath.Join(t.TempDir(), "git")
	run := func(stdin string, args ...string) []byte {
		cmd := exec.Command(git, append([]string{"--git-dir=" + gitDir, "--work-tree=" + root}, args...)...)
		cmd.Dir, cmd.Env, cmd.Stdin = root, env, strings.NewReader(stdin)
		out, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); err != nil && !(ok && exit.ExitCode() == 1 && args[0] == "check-ignore") {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	run("", "init", "-q")
	var stdin strings.Builder
	for p := range paths {
		stdin.WriteString("./" + p + "\x00")
	}
	ignored := make(map[string]bool)
	for _, p := range strings.Split(string(run(stdin.String(), "check-ignore", "--no-index", "--stdin", "-z")), "\x00") {
		if p != "" {
			ignored[strings.TrimPrefix(p, "./")] = true
		}
	}
	return ignored
}

func walk(t *testing.T, root, dir string, parent *ignore.Rules, ignored map[string]bool, all bool) {
	t.Helper()
	r := parent.Enter(dir, readRules(t, filepath.Join(root, dir)))
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		rel := filepath.Join(dir, e.Name())
		out := all || r.Ignored(rel, e.IsDir())
		if out {
			ignored[rel] = true
		}
		if e.IsDir() {
			walk(t, root, rel, r, ignored, out)
		}
	}
}

func readRules(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, ".gitignore"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return map[string][]byte{".gitignore": content}
}

func onlyRootRules(t *testing.T, root string) bool {
	t.Helper()
	return !strings.Contains(dumpRules(t, root), "/.gitignore:")
}

func dumpRules(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	for p := range allPaths(t, root) {
		if filepath.Base(p) == ".gitignore" {
			content, err := os.ReadFile(filepath.Join(root, p))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s:\n%q\n", p, content)
		}
	}
	return b.String()
}

func FuzzRules(f *testing.F) {
	f.Add("*.log\n!keep\n/a/**/b/\n", "a/x/b")
	f.Add("[a-", "a")
	f.Add("**/**/**", "a/b/c")
	f.Fuzz(func(t *testing.T, rules, path string) {
		r := ignore.New(false).Enter("", map[string][]byte{".gitignore": []byte(rules)})
		// A directory that is ignored takes everything inside with it.
		if r.Ignored(path, true) && strings.Trim(path, "/") != "" && !r.Ignored(path+"/inside", false) {
			t.Errorf("%q is ignored by %q but not what is inside", path, rules)
		}
	})
}
