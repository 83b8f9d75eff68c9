// Panics that are recovered, goroutines that talk to each other, deferred functions, growing stacks.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
)

var deferred int
var guard sync.Mutex

func count() {
	guard.Lock()
	deferred++
	guard.Unlock()
}

//go:noinline
func deep(level int) int {
	defer count()
	var room [64]int
	if level == 0 {
		var none *[64]int
		return none[deferred%64] // a signal
	}
	room[level%64] = deep(level - 1)
	return room[level%64] + 1
}

//go:noinline
func caught(work func() int) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("caught: %v", what)
		}
	}()
	work()
	return nil
}

// Does not recover all, and panics anew.
func again() int {
	defer func() {
		what := recover()
		panic(fmt.Sprint("again: ", what))
	}()
	panic(errors.New("first"))
}

func main() {
	runtime.GOMAXPROCS(2)
	work := []func() int{
		func() int { return deep(3) },
		func() int { return deep(2000) },
		func() int { var none []int; return none[len(os.Args)] },
		func() int { zero := len(os.Args) - 1; return 1 / zero },
		func() int { var any interface{} = "text"; return any.(int) },
		again,
	}
	results := make(chan string)
	var all sync.WaitGroup
	for number, one := range work {
		all.Add(1)
		go func(number int, one func() int) {
			defer all.Done()
			for round := 0; round < 5; round++ {
				results <- fmt.Sprintf("%d: %v", number, caught(one))
			}
		}(number, one)
	}
	go func() { all.Wait(); close(results) }()
	seen := map[string]int{}
	for result := range results {
		seen[strings.SplitN(result, "\n", 2)[0]]++
		runtime.Gosched()
	}
	runtime.GC()
	lines := make([]string, 0, len(seen))
	for line, times := range seen {
		lines = append(lines, fmt.Sprintf("%s (%d)", line, times))
	}
	sort.Strings(lines)
	fmt.Println(len(lines), "kinds,", deferred, "deferred")
}
