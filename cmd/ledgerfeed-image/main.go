// Command ledgerfeed-image writes a container image of the programs as an OCI layout, without a
// daemon: from scratch, for an account without rights, with nothing in it but the
// programs, which hold certificates of authorities and time zones themselves. The same
// commit gives the same bytes.
//
//	go run ./cmd/ledgerfeed-image --out image
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// account is the user and group of the process in the image: nobody's elsewhere.
const account = "65532:65532"

// programs are what the image has. It starts the first one.
func programs() []string { return []string{"ledgerfeed", "ledgerfeed-reader"} }

func main() {
	out := flag.String("out", "", "the directory of the layout; it must not exist yet")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64", "for which systems and processors")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *out, strings.Split(*platforms, ","))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ledgerfeed-image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, digests io.Writer, out string, platforms []string) error {
	if out == "" {
		return errors.New("want --out")
	}
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s exists", out)
	}
	made, err := commitTime(ctx)
	if err != nil {
		return err
	}
	var list []mutate.IndexAddendum
	for _, name := range platforms {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return fmt.Errorf("--platforms: %w", err)
		}
		image, err := build(ctx, platform, made)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), list...)
	// One entry, the index of all platforms: tools do not choose among several.
	entry := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: index})
	if _, err := layout.Write(out, entry); err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("compute the digest: %w", err)
	}
	if _, err := fmt.Fprintln(digests, digest); err != nil {
		return fmt.Errorf("write the digest: %w", err)
	}
	return nil
}

// commitTime is the time of the commit, so that the image does not depend on when it is made.
func commitTime(ctx context.Context) (time.Time, error) {
	text, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask git for the time of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the time of the commit: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// build makes the image for one platform.
func build(ctx context.Context, p *v1.Platform, made time.Time) (v1.Image, error) {
	compiled, err := compile(ctx, p)
	if err != nil {
		return nil, err
	}
	files, err := archive(compiled, made)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.AppendLayers(image, layer)
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant, config.Created = p.OS, p.Architecture, p.Variant, v1.Time{Time: made}
	config.History = []v1.History{{Created: v1.Time{Time: made}, CreatedBy: "ledgerfeed-image"}}
	config.Config = v1.Config{
		User: account, WorkingDir: "/", Entrypoint: []string{"/" + programs()[0]}, Cmd: []string{"serve"},
		// Inside of a container, only these reach the outside.
		Env:          []string{"LEDGERFEED_LISTEN=:8080", "LEDGERFEED_CONSOLE_LISTEN=:8081", "LEDGERFEED_ADMIN_LISTEN=:9090", "LEDGERFEED_LOG_FORMAT=json"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "9090/tcp": {}},
		StopSignal:   "SIGTERM",
		Labels:       map[string]string{"org.opencontainers.image.title": "Ledgerfeed", "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return image, nil
}

// compile builds the programs without libraries of the system, and without names of this
// machine's directories.
func compile(ctx context.Context, p *v1.Platform) (compiled [][]byte, err error) {
	dir, err := os.MkdirTemp("", "ledgerfeed-image-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := []string{"build", "-trimpath", "-ldflags", "-s -w -buildid="}
	for _, name := range programs() {
		args = append(args, "./cmd/"+name)
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Architecture, "GOFLAGS=-o="+dir+string(filepath.Separator))
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("build the programs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, name := range programs() {
		program, err := root.ReadFile(name)
		if err != nil {
			return nil, err
		}
		compiled = append(compiled, program)
	}
	return compiled, nil
}

// archive holds a place for temporary files and the programs.
func archive(compiled [][]byte, made time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: made, Format: tar.FormatUSTAR}); err != nil {
		return nil, fmt.Errorf("write tmp: %w", err)
	}
	for i, name := range programs() {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(compiled[i])), ModTime: made, Format: tar.FormatUSTAR}); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := w.Write(compiled[i]); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end the archive: %w", err)
	}
	return b.Bytes(), nil
}
