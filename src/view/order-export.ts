/** An order as a request that people paste into a shell. */
import { api } from '../contract/api.ts'
import type { Reply } from '../client/client.ts'

/** The key is read from the environment, so that it does not end up in the shell's history. */
export function orderAsCurl(url: string, { operation, body }: Reply<'getRentalOrder'>): string {
  const { method, path } = api[operation]
  return [
    `curl -X ${method} ${url}${path} \\`,
    '  -H "Authorization: Bearer $BERTH_KEY" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${quoted(JSON.stringify(body, null, 2))}`,
  ].join('\n')
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
