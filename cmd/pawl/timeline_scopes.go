package main

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/journal"
)

// deepest bounds how many parts of a scope become items inside one another.
const deepest = 64

// at is the item of a scope in this stretch, and makes it and those around it; nil for the run itself.
func (t *timeline) at(scope string, e journal.Event) *item {
	if it := t.scopes[scope]; it != nil || scope == "" {
		return it
	}
	var it *item
	end := 0
	for _, part := range parts(scope) {
		end += len(part)
		path := scope[:end]
		end++ // the slash
		inner := t.scopes[path]
		if inner == nil {
			inner = t.newScope(path, part, e)
			add(t, it, inner)
		}
		it = inner
	}
	t.scopes[scope] = it
	return it
}

// parts are the parts of a scope. A node with a static question belongs to one part with it: "3/draft/before" has two.
func parts(scope string) []string {
	all := strings.SplitN(scope, "/", deepest)
	n := len(all)
	if n > 1 && (all[n-1] == "before" || all[n-1] == "after") {
		all = append(all[:n-2], all[n-2]+"/"+all[n-1])
	}
	return all
}

// under puts an item into a scope.
func (t *timeline) under(scope string, it *item, e journal.Event) { add(t, t.at(scope, e), it) }

func add(t *timeline, outer, inner *item) {
	if outer == nil {
		t.top = append(t.top, inner)
		return
	}
	inner.outer, outer.Items = outer, append(outer.Items, inner)
	outer.since(inner.Begun)
}

// newScope is the item of a scope whose last part this is.
func (t *timeline) newScope(path, part string, e journal.Event) *item {
	it := t.item(e, placeItem)
	it.Scope, it.Name = path, part
	it.Continued, t.met[path] = t.met[path], true
	t.scopes[path] = it
	if n, err := strconv.Atoi(part); err == nil {
		it.Kind, it.Name, it.N = superStepItem, "", n
		return it
	}
	if name, n, ok := numbered(part, "[", "]"); ok && path == part && name == "update" {
		it.Kind, it.Name, it.N = updateItem, "", n // its last event has the name
		return it
	}
	if name, n, ok := numbered(part, "[", "]"); ok {
		it.Kind, it.Name, it.N = taskItem, name, n
		it.Fanned = n > 0 || t.fans[strings.TrimSuffix(path, part)+name]
		return it
	}
	if name, n, ok := numbered(part, "#", ""); ok {
		it.Kind, it.Name, it.N = branchItem, unescaped(name), n
		return it
	}
	if part == "catch" {
		it.Kind, it.Name = catchItem, ""
	}
	return it
}

// numbered splits "search[2]" or "visit#1".
func numbered(part, before, after string) (name string, n int, ok bool) {
	rest, ok := strings.CutSuffix(part, after)
	i := strings.LastIndex(rest, before)
	if !ok || i < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(rest[i+len(before):])
	return rest[:i], n, err == nil
}

func unescaped(name string) string {
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// stepPath is the scope of a super-step.
func stepPath(scope string, n int) string {
	if scope == "" {
		return strconv.Itoa(n)
	}
	return scope + "/" + strconv.Itoa(n)
}

// left are the planned tasks of the run's own graph that have no outcome.
func (t *timeline) left() (superStep int, tasks []string) {
	for _, p := range t.plan {
		n := max(p.Items, 1)
		for i := range n {
			scope := strconv.Itoa(t.planAt) + "/" + p.Node + "[" + strconv.Itoa(i) + "]"
			switch {
			case t.done[scope]:
			case p.Items == 0:
				tasks = append(tasks, p.Node)
			default:
				tasks = append(tasks, p.Node+"["+strconv.Itoa(i)+"]")
			}
		}
	}
	return t.planAt, tasks
}
