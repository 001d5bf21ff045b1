package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// harness shows the page in frames of both widths, since no browser window is as narrow as a telephone, and
// looks into them: the page itself has no script and allows none.
const harness = `<!DOCTYPE html><meta charset="utf-8"><body style="margin:0;display:flex">
<iframe src="%[1]s" style="border:0;width:390px;height:5600px"></iframe>
<iframe src="%[1]s" style="border:0;width:1280px;height:5600px"></iframe>
<pre id="seen" style="display:none"></pre>
<script>
addEventListener("load", () => {
  const seen = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const shown = [...page.querySelectorAll("svg")].filter(svg => getComputedStyle(svg).display != "none");
    const cut = [];
    let least = 99;
    for (const svg of shown) {
      const box = svg.getBoundingClientRect();
      for (const text of svg.querySelectorAll("text")) {
        const t = text.getBoundingClientRect();
        if (t.left < box.left - 1 || t.right > box.right + 1 || t.top < box.top - 1 || t.bottom > box.bottom + 1) cut.push(text.textContent);
        least = Math.min(least, parseFloat(getComputedStyle(text).fontSize) * box.width / svg.viewBox.baseVal.width);
      }
    }
    return {Width: frame.clientWidth, Needed: root.scrollWidth, Charts: shown.length, Cut: cut, LeastLetters: least};
  });
  document.getElementById("seen").textContent = JSON.stringify(seen);
});
</script>`

// seen is what the harness found in one frame.
type seen struct {
	Width, Needed, Charts int
	Cut                   []string // texts that stick out of their drawing
	LeastLetters          float64  // pixels
}

// browser is a headless Chromium and the server that it may ask.
type browser struct {
	program, profile string
	server           *httptest.Server
	mutex            sync.Mutex
	unexpected       []string // requests for what is no part of a page
}

func startBrowser(t *testing.T, pages map[string]string) *browser {
	t.Helper()
	b := &browser{}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && b.program == "" {
			b.program = path
		}
	}
	if b.program == "" {
		t.Skip("no chromium, chromium-browser or google-chrome on PATH: the page is not looked at")
	}
	profile, err := os.MkdirTemp("", "redlock-bench-browser-")
	require.NoError(t, err)
	b.profile = profile
	t.Cleanup(func() { _ = os.RemoveAll(profile) }) // a browser that is slow to end may still write there
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, found := pages[r.URL.Path]
		if !found && r.URL.Path != "/favicon.ico" { // every browser asks for that
			b.mutex.Lock()
			b.unexpected = append(b.unexpected, r.URL.Path)
			b.mutex.Unlock()
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	}))
	t.Cleanup(b.server.Close)
	return b
}

func (b *browser) requests() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.unexpected
}

// show opens a page and returns what the browser printed, and its console's lines.
func (b *browser) show(t *testing.T, path string, flags ...string) (stdout string, console []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
		"--enable-logging=stderr", "--user-data-dir=" + b.profile, "--window-size=1670,5600", "--virtual-time-budget=2000"}, flags...)
	cmd := exec.CommandContext(ctx, b.program, append(args, b.server.URL+path)...)
	cmd.WaitDelay = 5 * time.Second // its children keep the pipes open when it is killed
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%s", &errs)
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, "CONSOLE") {
			console = append(console, line)
		}
	}
	return out.String(), console
}

func (b *browser) look(t *testing.T, path string) (narrow, wide seen, console []string) {
	t.Helper()
	dom, console := b.show(t, path, "--dump-dom")
	found := regexp.MustCompile(`<pre id="seen"[^>]*>([^<]+)</pre>`).FindStringSubmatch(dom)
	require.Len(t, found, 2, dom)
	var both []seen
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(found[1])), &both))
	require.Len(t, both, 2)
	return both[0], both[1], console
}

func TestTheReportInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	page := reported(t, crowded())
	bad := strings.Replace(page, "<main>", `<main><div style="width:600px">wide</div><img src="/outside.png" alt="">`, 1)
	b := startBrowser(t, map[string]string{
		"/report": page, "/": fmt.Sprintf(harness, "/report"),
		"/bad-report": bad, "/bad": fmt.Sprintf(harness, "/bad-report"),
	})
	narrow, wide, console := b.look(t, "/")
	require.Empty(t, console, "the page asks for nothing and breaks no rule")
	require.Empty(t, b.requests())
	for _, s := range []seen{narrow, wide} {
		require.Equal(t, s.Width, s.Needed, "no scrolling sideways")
		require.Equal(t, 3, s.Charts, "each chart in one size")
		require.Empty(t, s.Cut)
		require.GreaterOrEqual(t, s.LeastLetters, 11.0)
	}
	for i, theme := range []string{"dark", "light"} {
		screenshot := filepath.Join(screenshots(t), theme+".png")
		_, console := b.show(t, "/", "--screenshot="+screenshot, fmt.Sprintf("--blink-settings=preferredColorScheme=%d", i))
		require.Empty(t, console)
		require.Equal(t, theme == "dark", isDark(t, screenshot), screenshot)
	}

	narrow, _, console = b.look(t, "/bad")
	require.Greater(t, narrow.Needed, narrow.Width, "the check finds what is too wide")
	require.NotEmpty(t, console, "the check finds requests")
	require.Empty(t, b.requests(), "and the page's own policy stops them")
}

// crowded is a result with long names, many faults and long texts.
func crowded() *result {
	r := eventful()
	for i := range r.Nodes {
		ping := &r.Nodes[i].Ping
		ping.P90, ping.P999, ping.Max = 2*ping.P50, 9*ping.P50, 400*ping.P50
		r.Nodes[i].Node = fmt.Sprintf("redis-%d.a-quite-long-name.eu-central-1.internal.example.com:6379", i)
	}
	r.Faults[0].Node = r.Nodes[2].Node
	r.Failures[0].Example = strings.Repeat(r.Nodes[0].Node+": i/o timeout, ", 4) + strings.Repeat("unbroken", 20)
	r.Nodes[2].Error = strings.Repeat("unbroken", 20)
	for n := range 6 {
		r.Faults = append(r.Faults, faultSpan{Fault: fmt.Sprintf("stop:%d@1s+1s", n), Node: "a:1", FromMs: 1000 + float64(n)*30, ToMs: 2000})
	}
	r.Faults = append(r.Faults, faultSpan{Fault: "cut:1@6s", Node: "b:1", FromMs: 5990, ToMs: 5990})
	r.Partial = true
	return r
}

// screenshots is where they go: REDLOCK_SCREENSHOTS for those who want to see them.
func screenshots(t *testing.T) string {
	if dir := os.Getenv("REDLOCK_SCREENSHOTS"); dir != "" {
		return dir
	}
	return t.TempDir()
}

func isDark(t *testing.T, path string) bool {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	picture, err := png.Decode(file)
	require.NoError(t, err)
	red, green, blue, _ := picture.At(5, 5).RGBA()
	return red+green+blue < 3*0x8000
}
