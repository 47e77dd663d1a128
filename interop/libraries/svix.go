package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	svix "github.com/svix/svix-webhooks/go"
)

// svixOperations are the operations of the API of Svix that every SDK has to do, in the order in
// which the scripts do them. A script answers with what went wrong, by operation.
var svixOperations = []string{
	"application.create", "application.getOrCreate", "application.list", "application.get", "application.upsert", "application.patch",
	"eventType.create", "eventType.list", "eventType.get", "eventType.upsert", "eventType.delete",
	"endpoint.create", "endpoint.list", "endpoint.get", "endpoint.upsert", "endpoint.patch",
	"endpoint.getSecret", "endpoint.rotateSecret", "endpoint.getHeaders", "endpoint.setHeaders",
	"message.create", "message.list", "message.get",
	"messageAttempt.listByEndpoint", "messageAttempt.listByMsg", "messageAttempt.get", "messageAttempt.listAttemptedMessages",
	"messageAttempt.listAttemptedDestinations", "messageAttempt.resend",
	"endpoint.recover", "endpoint.getStats", "authentication.appPortalAccess", "health.get", "endpoint.delete", "application.delete",
}

// svixAPI has the SDKs of Svix call a server, as programs that were written for Svix do.
func (l *lab) svixAPI(ctx context.Context) (_ []section, err error) {
	s, err := l.serve(ctx, "sqlite:"+filepath.Join(l.dir, "svix.db"), "--svix-api")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	out := section{title: "The API of Svix", about: fmt.Sprintf(
		"The official SDKs of Svix against `grapnel serve --svix-api`, with nothing but another server URL: %d operations each, every answer read by the SDK.",
		len(svixOperations))}
	for _, language := range []string{"Go", "Node", "Python"} {
		job := map[string]string{"server": s.base, "key": adminKey, "receiver": receiver.URL, "uid": "sdk-" + strings.ToLower(language)}
		name, wrong := "svix", map[string]string{}
		if language == "Go" {
			name = goSvix
			wrong = withGoSDK(ctx, job)
		} else if err := l.script(ctx, strings.ToLower(language), "svixapi", job, &wrong); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, s.words())
		}
		r := row{library: language + " `" + name + "`", version: l.version(strings.ToLower(language), name), what: "operations"}
		var failed []string
		for _, operation := range svixOperations {
			if why, done := wrong[operation]; !done || why != "" {
				failed = append(failed, operation+": "+why)
			}
		}
		r.failed = len(failed) > 0 || len(wrong) != len(svixOperations)
		r.result = strings.Join(append([]string{fmt.Sprintf("%d of %d", len(svixOperations)-len(failed), len(svixOperations))}, failed...), "; ")
		out.rows = append(out.rows, r)
	}
	return []section{out}, nil
}

// withGoSDK does all operations with the SDK for Go, as svix.mjs and svix.py do.
func withGoSDK(ctx context.Context, job map[string]string) map[string]string {
	wrong := map[string]string{}
	server, err := url.Parse(job["server"])
	if err != nil {
		return wrong
	}
	c := svix.New(job["key"], &svix.SvixOptions{ServerUrl: server})
	var id, ep, msg, attempt string
	uid, hook := job["uid"], job["receiver"]+"/"+job["uid"]
	do := func(operation string, call func() error) {
		wrong[operation] = ""
		if err := call(); err != nil {
			wrong[operation] = err.Error()
		}
	}
	must := func(is bool, what string) error {
		if !is {
			return errors.New(what)
		}
		return nil
	}
	do("application.create", func() error {
		got, err := c.Application.Create(ctx, &svix.ApplicationIn{Name: "Go", Uid: &uid, Metadata: &map[string]string{"planName": "gold"}})
		if err != nil {
			return err
		}
		id = got.Id
		return must(got.Uid != nil && *got.Uid == uid && got.Metadata["planName"] == "gold", "another application")
	})
	do("application.getOrCreate", func() error {
		got, err := c.Application.GetOrCreate(ctx, &svix.ApplicationIn{Name: "Go", Uid: &uid})
		return errors.Join(err, must(err != nil || got.Id == id, "another application"))
	})
	do("application.list", func() error {
		got, err := c.Application.List(ctx, nil)
		return errors.Join(err, must(err != nil || len(got.Data) > 0, "empty"))
	})
	do("application.get", func() error { _, err := c.Application.Get(ctx, uid); return err })
	do("application.upsert", func() error {
		_, err := c.Application.Update(ctx, id, &svix.ApplicationIn{Name: "Go 2", Uid: &uid})
		return err
	})
	do("application.patch", func() error {
		_, err := c.Application.Patch(ctx, id, &svix.ApplicationPatch{Metadata: &map[string]string{"a": "b"}})
		return err
	})
	kind := strings.ReplaceAll(uid, "-", ".")
	do("eventType.create", func() error {
		_, err := c.EventType.Create(ctx, &svix.EventTypeIn{Name: kind, Description: "from Go"})
		return err
	})
	do("eventType.list", func() error { _, err := c.EventType.List(ctx, nil); return err })
	do("eventType.get", func() error { _, err := c.EventType.Get(ctx, kind); return err })
	do("eventType.upsert", func() error {
		_, err := c.EventType.Update(ctx, kind, &svix.EventTypeUpdate{Description: "from Go", Schemas: map[string]any{"1": map[string]any{"type": "object"}}})
		return err
	})
	do("eventType.delete", func() error { return c.EventType.Delete(ctx, kind) })
	do("endpoint.create", func() error {
		got, err := c.Endpoint.Create(ctx, id, &svix.EndpointIn{Url: hook, Uid: &uid, FilterTypes: []string{kind}, Channels: []string{"ch"},
			RateLimit: svix.Int32(50)})
		if err != nil {
			return err
		}
		ep = got.Id
		return must(slices.Equal(got.FilterTypes, []string{kind}) && slices.Equal(got.Channels, []string{"ch"}), "another endpoint")
	})
	do("endpoint.list", func() error { _, err := c.Endpoint.List(ctx, id, nil); return err })
	do("endpoint.get", func() error { _, err := c.Endpoint.Get(ctx, id, uid); return err })
	do("endpoint.upsert", func() error {
		_, err := c.Endpoint.Update(ctx, id, ep, &svix.EndpointUpdate{Url: hook, Channels: []string{"ch"}})
		return err
	})
	do("endpoint.patch", func() error {
		_, err := c.Endpoint.Patch(ctx, id, ep, &svix.EndpointPatch{Description: svix.String("patched")})
		return err
	})
	do("endpoint.getSecret", func() error {
		got, err := c.Endpoint.GetSecret(ctx, id, ep)
		return errors.Join(err, must(err != nil || strings.HasPrefix(got.Key, "whsec_"), "no secret"))
	})
	do("endpoint.rotateSecret", func() error { return c.Endpoint.RotateSecret(ctx, id, ep, &svix.EndpointSecretRotateIn{}) })
	do("endpoint.setHeaders", func() error {
		return c.Endpoint.UpdateHeaders(ctx, id, ep, &svix.EndpointHeadersIn{Headers: map[string]string{"X-From": "Go"}})
	})
	do("endpoint.getHeaders", func() error {
		got, err := c.Endpoint.GetHeaders(ctx, id, ep)
		return errors.Join(err, must(err != nil || maps.Equal(got.Headers, map[string]string{"X-From": "Go"}), "other headers"))
	})
	do("message.create", func() error {
		got, err := c.Message.Create(ctx, id, &svix.MessageIn{EventType: kind, EventId: svix.String("one"), Channels: []string{"ch"}, Payload: map[string]any{"n": 1}})
		if err != nil {
			return err
		}
		msg = got.Id
		return nil
	})
	do("message.list", func() error {
		got, err := c.Message.List(ctx, id, nil)
		return errors.Join(err, must(err != nil || len(got.Data) == 1, "another number"))
	})
	do("message.get", func() error {
		got, err := c.Message.Get(ctx, id, "one")
		return errors.Join(err, must(err != nil || got.Id == msg && got.Payload["n"] == 1.0, "another message"))
	})
	do("messageAttempt.listByEndpoint", func() error {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for range 500 {
			got, err := c.MessageAttempt.ListByEndpoint(ctx, id, ep, nil)
			if err != nil {
				return err
			}
			if len(got.Data) > 0 {
				attempt = got.Data[0].Id
				return must(got.Data[0].MsgId == msg && got.Data[0].ResponseStatusCode == http.StatusOK, "another attempt")
			}
			<-again.C
		}
		return errors.New("no attempt")
	})
	do("messageAttempt.listByMsg", func() error { _, err := c.MessageAttempt.ListByMsg(ctx, id, msg, nil); return err })
	do("messageAttempt.get", func() error { _, err := c.MessageAttempt.Get(ctx, id, msg, attempt); return err })
	do("messageAttempt.listAttemptedMessages", func() error {
		got, err := c.MessageAttempt.ListAttemptedMessages(ctx, id, ep, nil)
		return errors.Join(err, must(err != nil || len(got.Data) == 1, "another number"))
	})
	do("messageAttempt.listAttemptedDestinations", func() error {
		got, err := c.MessageAttempt.ListAttemptedDestinations(ctx, id, msg, nil)
		return errors.Join(err, must(err != nil || len(got.Data) == 1, "another number"))
	})
	do("messageAttempt.resend", func() error { return c.MessageAttempt.Resend(ctx, id, msg, ep) })
	do("endpoint.recover", func() error {
		_, err := c.Endpoint.Recover(ctx, id, ep, &svix.RecoverIn{Since: time.Now().Add(-time.Hour)})
		return err
	})
	do("endpoint.getStats", func() error { _, err := c.Endpoint.GetStats(ctx, id, ep); return err })
	do("authentication.appPortalAccess", func() error {
		got, err := c.Authentication.AppPortalAccess(ctx, id, &svix.AppPortalAccessIn{})
		return errors.Join(err, must(err != nil || got.Url != "" && got.Token != "", "no link"))
	})
	do("health.get", func() error { // this version of the SDK has no such call
		r, err := http.Get(job["server"] + "/api/v1/health")
		if err == nil {
			err = must(r.StatusCode == http.StatusNoContent, r.Status)
			_ = r.Body.Close()
		}
		return err
	})
	do("endpoint.delete", func() error { return c.Endpoint.Delete(ctx, id, ep) })
	do("application.delete", func() error { return c.Application.Delete(ctx, id) })
	return wrong
}
