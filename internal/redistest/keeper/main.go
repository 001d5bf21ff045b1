// Command keeper starts redis-servers for test binaries that run under wine, see scripts/test-windows. It prints the
// address to be put into REDLOCK_KEEPER, and serves until its input ends or it is killed.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"github.com/redlock-go/redlock/internal/redistest"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: keeper WINEPREFIX/dosdevices")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // on Linux the servers die with this process
	}()
	log.Fatal(redistest.Keep(listener, os.Args[1]))
}
