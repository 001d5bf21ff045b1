package main

import (
	"fmt"
	"reflect"
	"strings"
)

// fact is a field of inputs or environment, for people.
type fact struct{ Name, Value string }

// facts lists the fields of a struct in their order. It reads names and units off the JSON names, so that a field
// that is added to inputs or environment shows up in the page and in comparisons without further work.
func facts(of any) []fact {
	v := reflect.ValueOf(of)
	var all []fact
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		all = append(all, factOf(name, v.Field(i)))
	}
	return all
}

func factOf(name string, v reflect.Value) fact {
	plain := func(suffix string) string { return strings.ReplaceAll(strings.TrimSuffix(name, suffix), "_", " ") }
	switch {
	case v.CanFloat() && strings.HasSuffix(name, "_ms"):
		return fact{plain("_ms"), milliText(v.Float())}
	case v.CanFloat() && strings.HasSuffix(name, "_us"):
		return fact{plain("_us"), microText(v.Float())}
	case v.CanInt():
		return fact{plain(""), grouped(v.Int())}
	case v.Kind() == reflect.Bool && v.Bool():
		return fact{plain(""), "yes"}
	case v.Kind() == reflect.Bool:
		return fact{plain(""), "no"}
	case v.Kind() == reflect.Slice:
		return fact{plain(""), listed(v)}
	case v.Kind() == reflect.String && v.Len() == 0:
		return fact{plain(""), "none"}
	}
	return fact{plain(""), fmt.Sprint(v.Interface())}
}

func listed(v reflect.Value) string {
	var parts []string
	for i := range v.Len() {
		parts = append(parts, fmt.Sprint(v.Index(i).Interface()))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
