/** A curl command to paste for each operation, from the contract's examples. */
import type { OperationId } from '../../contract/api.ts'
import type { Endpoint } from '../../contract/endpoint.ts'
import { exampleBodies, exampleQueries } from '../../contract/openapi/example-body.ts'
import { html, type Markup } from './markup.ts'

export function renderCurl(operationId: string, endpoint: Endpoint): Markup {
  return html`<pre class="curl" tabindex="0"><code>${highlight(writeCurl(operationId, endpoint))}</code></pre>`
}

export function writeCurl(operationId: string, endpoint: Endpoint): string {
  const body = (exampleBodies as Readonly<Record<string, unknown>>)[operationId]
  const followed = endpoint.answers === 'events' ? '-N ' : ''
  const impliedMethod = body === undefined ? 'GET' : 'POST'
  const method = endpoint.method === impliedMethod ? '' : `-X ${endpoint.method} `
  const query = exampleQueries[operationId as OperationId]
  const url = `"$BERTH_URL${fillPath(endpoint.path)}${query === undefined ? '' : `?${query}`}"`
  return [
    // A long URL gets its own line, so that the column need not break it.
    ...(url.length > 48 ? [`curl ${followed}${method}`.trimEnd(), url] : [`curl ${followed}${method}${url}`]),
    ...credentialsOf(endpoint),
    ...(endpoint.idempotent === true ? ['-H "Idempotency-Key: $(date +%s)"'] : []),
    ...(body === undefined
      ? []
      : ['-H "Content-Type: application/json"', `-d ${quoteForShell(writeJson(body)).replaceAll('\n', '\n  ')}`]),
  ].join(' \\\n  ')
}

/** A person's operations take the cookie of a browser. */
function credentialsOf({ access }: Endpoint): string[] {
  if (access === 'public') return []
  if (access === 'person') return ['-b "berth_session=$BERTH_SESSION"', '-H "X-Berth-Console: 1"']
  return ['-H "Authorization: Bearer $BERTH_KEY"']
}

/** Single quotes keep the shell out of everything but themselves. */
function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}

/** Writes one line if it fits the column, otherwise one line per field. */
function writeJson(value: unknown): string {
  const short = JSON.stringify(value)
  return short.length <= 36 ? short : JSON.stringify(value, null, 2)
}

/** Strings in one color, JSON keys in another. */
export function highlight(code: string): Markup {
  const tokens = code.match(/"(?:[^"\\]|\\.)*"|[^"]+/g) ?? []
  return html`${tokens.map((token, index) => {
    if (!token.startsWith('"')) return token
    const isKey = tokens[index + 1]?.trimStart().startsWith(':') ?? false
    return isKey ? html`<var>${token}</var>` : html`<i>${token}</i>`
  })}`
}

/** Ids become shell variables, named after the noun before them. */
function fillPath(path: string): string {
  return path
    .replace('{month}', '2026-11')
    .replace(/([a-z-]+)\/\{id\}/, (_, noun: string) => `${noun}/$${singular(noun).toUpperCase().replace('-', '_')}_ID`)
}

function singular(noun: string): string {
  return noun.endsWith('ies') ? `${noun.slice(0, -3)}y` : noun.replace(/s$/, '')
}
