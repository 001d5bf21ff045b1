package redlock

import (
	"errors"
	"fmt"
	"strings"
)

// The bounds of one lock. While a node executes a command with so many keys, all its other callers wait.
const (
	maxKeys     = 1000
	maxKeyBytes = 1 << 20
	maxAllBytes = 8 << 20
)

// checkNames refuses keys that cannot be those of one lock, or would not be as they are stored.
func (c *config) checkNames(keys []string) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	all := 0
	for i, key := range keys {
		stored := c.prefix + key
		all += len(stored)
		if len(stored) > maxKeyBytes {
			return fmt.Errorf("redlock: %s %s: %s bytes long; a key has at most %s",
				argument(keys, i), quotedKey(key), grouped(len(stored)), grouped(maxKeyBytes))
		}
		for _, suffix := range []string{listSuffix, fenceSuffix} {
			if strings.HasSuffix(stored, suffix) {
				return fmt.Errorf("redlock: %s %s: redlock keeps names that end in %q for itself", argument(keys, i), quotedKey(key), suffix)
			}
		}
	}
	if all > maxAllBytes {
		return fmt.Errorf("redlock: keys: %s bytes together; the keys of a lock have at most %s", grouped(all), grouped(maxAllBytes))
	}
	return nil
}

// checkKeys refuses too many keys, or none, and a key that is empty or given twice.
func checkKeys(keys []string) error {
	switch {
	case len(keys) == 0:
		return errors.New("redlock: keys: none given")
	case len(keys) == 1 && keys[0] == "":
		return errors.New("redlock: key is empty")
	case len(keys) == 1:
		return nil
	case len(keys) > maxKeys:
		return fmt.Errorf("redlock: keys: %s given; a lock has at most %s", grouped(len(keys)), grouped(maxKeys))
	}
	seen := make(map[string]int, len(keys))
	for i, key := range keys {
		if key == "" {
			return fmt.Errorf("redlock: keys[%d]: is empty", i)
		}
		if j, ok := seen[key]; ok {
			return fmt.Errorf("redlock: keys[%d] and keys[%d]: both are %s", j, i, quotedKey(key))
		}
		seen[key] = i
	}
	return nil
}

// argument names keys[i] as the caller knows it.
func argument(keys []string, i int) string {
	if len(keys) == 1 {
		return "key"
	}
	return fmt.Sprintf("keys[%d]", i)
}
