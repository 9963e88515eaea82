package redlocktusd_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	redlocktusd "github.com/seed6c881748/redlock/integrations/tusd"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// An upload is begun at one server and continued at another.
func Example() {
	folder, err := os.MkdirTemp("", "uploads") // Which both servers have mounted.
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	cluster, err := testcluster.StartEmbedded(3)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cluster.Close() }()
	one, endOne := serve(folder, cluster.Addrs())
	defer endOne()
	two, endTwo := serve(folder, cluster.Addrs())
	defer endTwo()

	created := request(http.MethodPost, one+"/files/", "", "Upload-Length", "12")
	upload := "/files/" + path.Base(created.Header.Get("Location"))
	request(http.MethodPatch, one+upload, "hello ", "Upload-Offset", "0")
	fmt.Println(request(http.MethodHead, two+upload, "").Header.Get("Upload-Offset"))
	fmt.Println(request(http.MethodPatch, two+upload, "world\n", "Upload-Offset", "6").Header.Get("Upload-Offset"))
	// Output:
	// 6
	// 12
}

// serve starts a server.
func serve(folder string, addrs []string) (url string, end func()) {
	r, err := nodetest.Connect(addrs) // A Redlock.
	if err != nil {
		log.Fatal(err)
	}
	locker := redlocktusd.New(r, 10*time.Second)
	composer := handler.NewStoreComposer()
	filestore.New(folder).UseIn(composer)
	locker.UseIn(composer)
	h, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
	if err != nil {
		log.Fatal(err)
	}
	s := httptest.NewServer(http.StripPrefix("/files/", h))
	return s.URL, func() {
		s.Close() // Before the Redlock: requests unlock.
		_ = r.Close(context.Background())
	}
}

func request(method, url, body string, header ...string) *http.Response {
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	req.Header.Set("Content-Type", "application/offset+octet-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	_ = res.Body.Close()
	return res
}
