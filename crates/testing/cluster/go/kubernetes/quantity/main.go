// Command quantity reads one quantity a line and prints its canonical form, or "error".
package main

import (
	"bufio"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		quantity, err := resource.ParseQuantity(lines.Text())
		if err != nil {
			fmt.Fprintln(output, "error")
			continue
		}
		number, suffix := quantity.CanonicalizeBytes(nil)
		fmt.Fprintf(output, "%s%s\n", number, suffix)
	}
}
