module berth/bench/go-proxy

go 1.21
