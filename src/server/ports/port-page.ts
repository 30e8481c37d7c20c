/** Answers of the proxy itself: a small page for people, JSON for programs. */
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { randomId } from '../../base/id.ts'
import { PORT_OPEN_PATH } from '../../contract/port.ts'
import type { Failure } from '../../contract/result.ts'
import { requestFailurePage } from '../http/error-page.ts'
import { html } from '../console/markup.ts'

const STYLE =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem;color:#1f2937;background:#fff}' +
  'h1{font-size:1.25rem}p{color:#4b5563}@media(prefers-color-scheme:dark){body{background:#111827;color:#f3f4f6}p{color:#9ca3af}}'

/** Reloads the path from a page of this origin, so that this request and all later ones have it as their Referer. */
const CONTINUE = `location.replace('${PORT_OPEN_PATH}?path='+encodeURIComponent(location.pathname+location.search+location.hash))`
const CONTINUE_HASH = createHash('sha256').update(CONTINUE).digest('base64')

/** Leads to the application through a page that no other page can frame. Returns the status. */
export function sendPortContinuation(response: ServerResponse): number {
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>Opening the application …</title>
      </head>
      <body>
        <noscript>Allow scripts on this page to open the application.</noscript>
        ${{ html: `<script>${CONTINUE}</script>` }}
      </body>
    </html> `.html
  response.writeHead(200, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Length': Buffer.byteLength(page),
    'Content-Security-Policy': `default-src 'none'; script-src 'sha256-${CONTINUE_HASH}'; frame-ancestors 'none'`,
    'X-Frame-Options': 'DENY',
    'Referrer-Policy': 'same-origin',
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  })
  response.end(page)
  return 200
}

/** Answers in place of the application. Returns the status. */
export function sendPortFailure(request: IncomingMessage, response: ServerResponse, failure: Failure): number {
  const page = requestFailurePage('v2', failure)
  if (response.headersSent) {
    response.destroy()
    return page.status
  }
  const isForPeople = request.headers.accept?.includes('text/html') === true
  const body = isForPeople ? pageOf(failure) : JSON.stringify(page.body)
  response.writeHead(page.status, {
    'Content-Type': isForPeople ? 'text/html; charset=utf-8' : 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'",
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'X-Request-Id': randomId('req'),
    ...(failure.retryAfterMs === undefined ? {} : { 'Retry-After': Math.ceil(failure.retryAfterMs / 1_000) }),
  })
  response.end(request.method === 'HEAD' ? undefined : body)
  return page.status
}

function pageOf({ message }: Failure): string {
  const [firstSentence = '', ...next] = message.split(/(?<=\.) /)
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <title>${firstSentence}</title>
        <style>
          ${STYLE}
        </style>
      </head>
      <body>
        <h1>${firstSentence}</h1>
        <p>${next.join(' ')}</p>
      </body>
    </html> `.html
}
