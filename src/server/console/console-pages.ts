/**
 * The console over HTTP. It is a single-page app, so every address that nothing else answers gets that page if a browser
 * asks for one; programs get a JSON 404.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { findConsoleFolder, INDEX, readConsoleFiles, type ConsoleFile, type ConsoleFiles } from './console-files.ts'
import { chooseEncoding } from '../http/encoding.ts'

export interface ConsolePages {
  /** False: not for the console; nothing was sent. */
  answer(request: FastifyRequest, reply: FastifyReply): Promise<boolean>
}

/** Below these, an unknown address is a program's mistake. */
const others = /^\/((v1|v2|console|assets)(\/|$)|billing\/)/

/** A checkout before its first build. */
const NOT_BUILT = `<!doctype html>
<html lang="en">
  <head><meta charset="utf-8"><title>Berth</title></head>
  <body>
    <h1>Berth is running</h1>
    <p>The web console is not built. Run <code>npm run build</code> and reload this page.</p>
    <p>The API is there: see <a href="/docs">its reference</a>.</p>
  </body>
</html>
`

/** Files are read at the first request: a start should not wait for them. */
export function makeConsolePages(chosenFolder: string | undefined): ConsolePages {
  let reading: Promise<ConsoleFiles> | undefined
  const find = async (): Promise<ConsoleFiles | undefined> => {
    if (reading !== undefined) return reading
    // Checked again each time until the build exists.
    const dir = findConsoleFolder(chosenFolder)
    if (dir === undefined) return undefined
    reading = readConsoleFiles(dir)
    reading.catch(() => (reading = undefined))
    return reading
  }
  return {
    answer: async (request, reply) => {
      if (request.method !== 'GET' && request.method !== 'HEAD') return false
      const at = request.url.split(/[?#]/, 1)[0] ?? ''
      const isPage = at === '/' || (!others.test(at) && (request.headers.accept ?? '').includes('text/html'))
      const files = await find()
      const file = files?.get(at) ?? (isPage ? files?.get(INDEX) : undefined)
      if (file !== undefined) await sendFile(file, request, reply)
      else if (isPage) void setHeaders(reply).type('text/html; charset=utf-8').send(NOT_BUILT)
      else return false
      return true
    },
  }
}

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' data: blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

async function sendFile(file: ConsoleFile, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  setHeaders(reply)
    .header('Cache-Control', file.isForever ? 'public, max-age=31536000, immutable' : 'no-cache')
    .header('Vary', 'Accept-Encoding')
  const encoding = chooseEncoding(request.headers['accept-encoding'])
  const compressed = encoding === undefined ? undefined : file.as(encoding)
  // Each encoding needs its own ETag.
  const tag = compressed === undefined ? `"${file.hash}"` : `"${file.hash}-${encoding}"`
  reply.header('ETag', tag)
  if (isKnown(request.headers['if-none-match'], tag)) return void reply.code(304).send()
  reply.type(file.type)
  if (compressed === undefined) return void reply.send(file.plain)
  void reply.header('Content-Encoding', encoding).send(await compressed)
}

function isKnown(tags: string | undefined, tag: string): boolean {
  const cachedTags = tags?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? []
  return cachedTags.includes(tag) || cachedTags.includes('*')
}

function setHeaders(reply: FastifyReply): FastifyReply {
  return (
    reply
      .header('Content-Security-Policy', policy)
      // With `no-referrer`, some console requests would have the origin `null` and be rejected as cross-site.
      .header('Referrer-Policy', 'same-origin')
      .header('Cross-Origin-Opener-Policy', 'same-origin')
      .header('Cross-Origin-Resource-Policy', 'same-origin')
      .header('X-Frame-Options', 'DENY')
  )
}
