// Command pubsub answers as Google Pub/Sub. It is the server in memory that Google's library has for
// tests. It is a module of its own, because that server needs far more than a publisher does.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"cloud.google.com/go/pubsub/v2/pstest"
)

func main() {
	server := pstest.NewServerWithAddress(os.Args[1])
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	<-end
	_ = server.Close()
}
