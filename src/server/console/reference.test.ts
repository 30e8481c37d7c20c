/** The reference covers the whole contract, its examples work unchanged, and everything is escaped. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { api } from '../../contract/api.ts'
import type { Endpoint } from '../../contract/endpoint.ts'
import { describeApi } from '../../contract/openapi/openapi.ts'
import { escapeText, html, join, prose } from './markup.ts'
import { exampleBodies, exampleQueries } from '../../contract/openapi/example-body.ts'
import { writeCurl } from './reference-example.ts'
import { patternLabels, renderFields } from './reference-fields.ts'
import { renderReference } from './reference.ts'

const page = renderReference()
const operations = Object.entries<Endpoint>(api)
const run = promisify(execFile)

describe.each(operations)('%s', (id, endpoint) => {
  const article = page.split(`<article id="${id}">`)[1]?.split('</article>')[0] ?? ''

  test('is on the page and in both menus', () => {
    expect(article).toContain(escapeText(endpoint.path))
    expect(article).toContain(prose(endpoint.summary).html)
    expect(page.split(`href="#${id}"`).length - 1).toBeGreaterThanOrEqual(3)
  })

  test('lists its access and statuses', () => {
    const words = {
      public: ['No key needed'],
      'any-key': ['Any key'],
      person: ['Signed in to the console as a person'],
    }
    for (const word of typeof endpoint.access === 'string' ? words[endpoint.access] : endpoint.access) {
      expect(article).toContain(word)
    }
    for (const status of endpoint.errors) expect(article).toContain(`<b>${status}</b>`)
  })

  test('has an example whose body it accepts', () => {
    const body: unknown = (exampleBodies as Readonly<Record<string, unknown>>)[id]
    expect(body !== undefined).toBe(endpoint.body !== undefined)
    expect(endpoint.body?.safeParse(body).error?.issues ?? []).toEqual([])
    expect(article).toContain('<pre class="curl"')
  })
})

test('the shell sends an example unchanged', async () => {
  const scripts = operations.map(([id, endpoint]) => `${writeCurl(id, endpoint)}; printf '\\f'`)
  // Replaces curl: prints the arguments, one record per call.
  const shell = `curl() { for a in "$@"; do printf '%s\\v' "$a"; done; }\n${scripts.join('\n')}`
  const { stdout } = await run('sh', ['-c', shell], { env: { ...process.env, BERTH_URL: 'http://b', BERTH_KEY: 'k' } })
  const calls = stdout.split('\f').slice(0, -1)
  const sent = operations.map(([id], index) => readCall(id, (calls[index] ?? '').split('\v')))
  const expected = operations.map(([id, { method, path, access }]) => ({
    id,
    method,
    path: `${path.replaceAll(/\{id\}/g, '').replace('{month}', '2026-11')}${queryOf(id)}`,
    body: (exampleBodies as Readonly<Record<string, unknown>>)[id],
    withKey: access !== 'public' && access !== 'person',
  }))
  expect(sent).toEqual(expected)
})

function queryOf(id: string): string {
  const query = (exampleQueries as Readonly<Record<string, string>>)[id]
  return query === undefined ? '' : `?${query}`
}

function readCall(id: string, words: readonly string[]) {
  const after = (flag: string) => (words.includes(flag) ? words[words.indexOf(flag) + 1] : undefined)
  const data = after('-d')
  return {
    id,
    method: after('-X') ?? (data === undefined ? 'GET' : 'POST'),
    path: words.find((word) => word.startsWith('http://b/'))?.slice('http://b'.length),
    body: data === undefined ? undefined : (JSON.parse(data) as unknown),
    withKey: words.includes('Authorization: Bearer k'),
  }
}

test('every link has a target on the page', () => {
  const places = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
  const links = [...page.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id)
  expect(links.filter((id) => !places.has(id))).toEqual([])
  expect(page.match(/ id="[^"]+"/g)).toHaveLength(places.size)
})

test('runs no script and loads nothing', () => {
  expect(page).not.toMatch(/<script|<link|<img|<iframe|@import|url\(|\son\w+=|javascript:/i)
  expect(page.match(/(?:src|href)="(?!#)[^"]*"/g)).toBeNull()
})

test('has balanced tags', () => {
  const open: string[] = []
  const crossed: string[] = []
  for (const [, end, name = '', whole] of page.matchAll(/<(\/?)([a-z][a-z0-9]*)([^>]*)>/g)) {
    if (['meta', 'col'].includes(name) || whole?.endsWith('/') === true) continue
    if (end === '') open.push(name)
    else if (open.pop() !== name) crossed.push(name)
  }
  expect([...open, ...crossed]).toEqual([])
})

describe('text on the page is escaped', () => {
  const evil = `<script>alert("1")</script>'&`
  const safe = '&#60;script&#62;alert(&#34;1&#34;)&#60;/script&#62;&#39;&#38;'

  test('in templates, lists and prose', () => {
    expect(html`<p title="${evil}">${[evil, 1, undefined]}</p>`.html).toBe(`<p title="${safe}">${safe}1</p>`)
    expect(join([html`a`, html`b`], '<').html).toBe('a&#60;b')
    expect(prose(`\`${evil}\` ${evil}`).html).toBe(`<code>${safe}</code> ${safe}`)
  })

  test('in every part of a schema', () => {
    const field = { type: 'string', description: evil, default: evil, pattern: evil, enum: [evil] }
    const schema = {
      type: 'object',
      required: [evil],
      properties: { [evil]: field, named: { $ref: `#/components/schemas/${evil}` }, fixed: { const: evil } },
    }
    expect(renderFields(schema, 'request').html).not.toContain('<script')
    const variants = { oneOf: [{ type: 'object', properties: { [evil]: { const: evil } } }] }
    expect(renderFields(variants, 'answer').html).not.toContain('<script')
  })
})

test('has labels only for patterns that exist', () => {
  const text = JSON.stringify(describeApi('all'))
  expect(Object.keys(patternLabels).filter((pattern) => !text.includes(JSON.stringify(pattern)))).toEqual([])
})
