/** Both steps of the action need this: its inputs and state, as the runner passes them, and the API. */
import { appendFileSync } from 'node:fs'

const TRIES = 5
const FIRST_PAUSE_MS = 1_000
const CALL_MS = 60_000

export class ActionError extends Error {}

export function input(name, { isRequired = false } = {}) {
  const value = (process.env[`INPUT_${name.toUpperCase().replaceAll(' ', '_')}`] ?? '').trim()
  if (isRequired && value === '') throw new ActionError(`The input ${name} is required.`)
  return value
}

/** Lines of `name=value` for the runner. */
export function tell(file, name, value) {
  const target = process.env[file]
  if (/[\r\n]/.test(value)) throw new ActionError(`The value of ${name} has several lines.`)
  if (target !== undefined && target !== '') appendFileSync(target, `${name}=${value}\n`)
}

export function mask(secret) {
  process.stdout.write(`::add-mask::${secret}\n`)
}

/** The runner shows it at the step. */
export function reportFailure(error) {
  const message = error instanceof Error ? error.message : String(error)
  process.stdout.write(`::error::${message.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')}\n`)
}

export function server() {
  const url = input('url', { isRequired: true }).replace(/\/+$/, '')
  if (!URL.canParse(url)) throw new ActionError('The input url is not a URL.')
  return { url, key: input('key', { isRequired: true }) }
}

/** Tried again when the server cannot be reached or is busy: creates carry an idempotency key, the others can be repeated. */
export async function call({ url, key }, method, path, { body, headers = {} } = {}) {
  for (let attempt = 1; ; attempt += 1) {
    const answer = await once({ url, key }, method, path, { body, headers })
    if (answer.ok) return answer.body
    const isOver = attempt >= TRIES || !answer.mayPass
    if (isOver) throw new ActionError(`${method} ${path}: ${answer.message}`)
    await new Promise((resolve) => setTimeout(resolve, answer.pauseMs ?? FIRST_PAUSE_MS * 2 ** (attempt - 1)))
  }
}

async function once({ url, key }, method, path, { body, headers }) {
  let response
  try {
    response = await fetch(`${url}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(CALL_MS),
    })
  } catch (error) {
    return { ok: false, mayPass: true, message: `the server cannot be reached (${error.message})` }
  }
  const answer = await response.json().catch(() => ({}))
  if (response.ok) return { ok: true, body: answer }
  const seconds = Number(response.headers.get('retry-after'))
  return {
    ok: false,
    mayPass: response.status === 429 || response.status >= 500,
    message: answer.message ?? `status ${response.status}`,
    ...(seconds > 0 ? { pauseMs: Math.min(seconds, 60) * 1_000 } : {}),
  }
}
