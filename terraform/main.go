// The provider for Terraform and OpenTofu. It speaks protocol 6 to the program that starts it.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"terraform-provider-berth/internal/provider"
)

// The release writes the version here.
var version = "dev"

func main() {
	options := providerserver.ServeOpts{Address: "registry.opentofu.org/berth/berth"}
	if err := providerserver.Serve(context.Background(), provider.New(version), options); err != nil {
		log.Fatal(err)
	}
}
