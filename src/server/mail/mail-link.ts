/**
 * The links in e-mails: to unsubscribe, and to confirm an address. Opening one changes nothing, because mail scanners open
 * links: the page has a button. To unsubscribe, mail programs post to the link directly (RFC 8058). The sealed token is the
 * only credential.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../../app/app.ts'
import { confirmMembership, openConfirmation } from '../../app/account/mail-confirmation.ts'
import { stopMail } from '../../app/account/notification.ts'
import { openUnsubscribe } from '../../app/account/unsubscribe.ts'
import { defaultRates } from '../../base/limits.ts'
import { notificationKinds } from '../../contract/notification-kind.ts'
import { transact } from '../../store/platform/database.ts'
import { CONFIRM_PATH, UNSUBSCRIBE_PATH } from './mail-message.ts'
import { html, type Markup } from '../console/markup.ts'
import type { RateLimiter } from '../http/rate-limit.ts'

const MAX_TOKEN_CHARS = 1_000

interface MailLinkOptions {
  readonly app: App
  readonly rates: RateLimiter
}

export function addMailRoutes(server: FastifyInstance, options: MailLinkOptions): void {
  addPages(server, options)
  void server.register(async (scope) => addForms(scope, options))
}

function tokenOf(request: FastifyRequest): string {
  const { token } = request.query as { token?: unknown }
  return typeof token === 'string' && token.length <= MAX_TOKEN_CHARS ? token : ''
}

function isTooOften({ rates }: MailLinkOptions, request: FastifyRequest): boolean {
  return !rates.takeByAddress('address', request.ip, defaultRates.perAddressUnauthenticated).allowed
}

function addPages(server: FastifyInstance, options: MailLinkOptions): void {
  const { app } = options
  server.get(UNSUBSCRIBE_PATH, async (request, reply) => {
    if (isTooOften(options, request)) return page(reply, 429, TOO_OFTEN)
    const token = tokenOf(request)
    const subscription = openUnsubscribe(app.vault, token)
    if (subscription === undefined) return page(reply, 404, NOT_VALID)
    const { label } = notificationKinds[subscription.kind]
    return page(
      reply,
      200,
      html`<h1>Stop e-mails: ${label}</h1>
        <p>You will still see these notifications in the console.</p>
        <form method="post" action="${UNSUBSCRIBE_PATH}?token=${encodeURIComponent(token)}">
          <button>Stop these e-mails</button>
        </form>`,
    )
  })

  server.get(CONFIRM_PATH, async (request, reply) => {
    if (isTooOften(options, request)) return page(reply, 429, TOO_OFTEN)
    const token = tokenOf(request)
    if (openConfirmation(app, token) === undefined) return page(reply, 404, NOT_CONFIRMABLE)
    return page(
      reply,
      200,
      html`<h1>Receive notifications by e-mail</h1>
        <p>Each e-mail will have a link that stops its kind.</p>
        <form method="post" action="${CONFIRM_PATH}?token=${encodeURIComponent(token)}">
          <button>Confirm this address</button>
        </form>`,
    )
  })
}

function addForms(scope: FastifyInstance, options: MailLinkOptions): void {
  const { app } = options
  // The body of a form says nothing that the token does not.
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser('*', (_request, payload, done) => {
    payload.resume()
    payload.once('end', () => done(null, undefined))
    payload.once('error', (error) => done(error, undefined))
  })
  scope.post(UNSUBSCRIBE_PATH, async (request, reply) => {
    if (isTooOften(options, request)) return page(reply, 429, TOO_OFTEN)
    const subscription = openUnsubscribe(app.vault, tokenOf(request))
    if (subscription === undefined) return page(reply, 404, NOT_VALID)
    await transact(app.database, (tx) => stopMail(tx, subscription))
    const { label } = notificationKinds[subscription.kind]
    return page(
      reply,
      200,
      html`<h1>Done</h1>
        <p>You will get no more e-mails of this kind: ${label}.</p>`,
    )
  })
  scope.post(CONFIRM_PATH, async (request, reply) => {
    if (isTooOften(options, request)) return page(reply, 429, TOO_OFTEN)
    const membership = openConfirmation(app, tokenOf(request))
    const isConfirmed =
      membership !== undefined && (await transact(app.database, (tx) => confirmMembership(tx, membership)))
    if (!isConfirmed) return page(reply, 404, NOT_CONFIRMABLE)
    return page(
      reply,
      200,
      html`<h1>Done</h1>
        <p>Notifications come by e-mail from now on. Choose which in the console under Notifications.</p>`,
    )
  })
}

const NOT_VALID = html`<h1>This link is not valid</h1>
  <p>Choose your e-mails in the console under Account.</p>`
const NOT_CONFIRMABLE = html`<h1>This link is not valid</h1>
  <p>Send yourself another confirmation in the console under Notifications.</p>`
const TOO_OFTEN = html`<h1>Too many requests</h1>
  <p>Try again in a minute.</p>`

function page(reply: FastifyReply, status: number, body: Markup): FastifyReply {
  const style = 'body{font:16px/1.5 sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem;color:#16202c}'
  return reply
    .code(status)
    .header('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
    .header('Referrer-Policy', 'no-referrer')
    .type('text/html; charset=utf-8')
    .send(
      `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Berth</title><style>${style}</style></head><body>${body.html}</body></html>`,
    )
}
