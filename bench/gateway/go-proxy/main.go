// The reverse proxy of Go's standard library, with a pool as large as the other proxies have. Usage: go-proxy PORT UPSTREAM.
package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

func main() {
	target, err := url.Parse("http://127.0.0.1:" + os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 1024
	transport.MaxIdleConnsPerHost = 1024
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport: transport,
		// Every chunk at once, as a stream needs it.
		FlushInterval: -1,
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], proxy))
}
