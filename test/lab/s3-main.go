// An S3 server over a folder: versitygw without the storage and the accounts that need other services.
package main

import (
	"context"
	"log"
	"os"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	folder, address := os.Args[1], os.Args[2]
	store, err := posix.New(folder, meta.XattrMeta{}, posix.PosixOpts{})
	if err != nil {
		log.Fatal(err)
	}
	err = embedgw.RunVersityGW(context.Background(), store, &embedgw.Config{
		RootUserAccess:    os.Getenv("S3_ACCESS_KEY"),
		RootUserSecret:    os.Getenv("S3_SECRET_KEY"),
		Region:            os.Getenv("S3_REGION"),
		Ports:             []string{address},
		MaxConnections:    100,
		MaxRequests:       100,
		MultipartMaxParts: 10000,
		KeepAlive:         true,
		Quiet:             true,
	})
	if err != nil {
		log.Fatal(err)
	}
}
