/** The committed OpenAPI files match the contract and pass a standard linter. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { api } from '../src/contract/api.ts'
import type { Endpoint } from '../src/contract/endpoint.ts'
import { describeApi } from '../src/contract/openapi/openapi.ts'

const root = new URL('..', import.meta.url)
const run = promisify(execFile)

interface Described {
  readonly operationId: string
  readonly security: readonly unknown[]
}

function operationsOf(selection: 'v2' | 'all'): Described[] {
  const { paths } = describeApi(selection) as { paths: Record<string, Record<string, Described>> }
  return Object.values(paths).flatMap((path) => Object.values(path))
}

describe.each(['v2', 'all'] as const)('openapi/%s.json', (selection) => {
  test('matches the contract (run `npm run openapi` to update)', async () => {
    const written = await readFile(new URL(`openapi/${selection}.json`, root), 'utf8')
    expect(written).toBe(`${JSON.stringify(describeApi(selection), null, 2)}\n`)
  })

  test('passes the linter without errors or warnings', { timeout: 240_000 }, async () => {
    const { stdout } = await run(
      process.execPath,
      [
        'node_modules/@redocly/cli/bin/cli.js',
        'lint',
        `openapi/${selection}.json`,
        '--config=redocly.yaml',
        '--format=json',
      ],
      {
        cwd: fileURLToPath(root),
        // No telemetry and no update check: the test needs no network.
        env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
      },
    )
    const { totals, problems } = JSON.parse(stdout) as { totals: unknown; problems: unknown }
    expect({ totals, problems }).toEqual({ totals: { errors: 0, warnings: 0, ignored: 0 }, problems: [] })
  })

  test('has unique operation ids', () => {
    const ids = operationsOf(selection).map(({ operationId }) => operationId)
    expect(ids).toHaveLength(new Set(ids).size)
  })

  test('has no dangling and no unused references', () => {
    const description = describeApi(selection)
    const components = description['components'] as Record<string, Record<string, unknown>>
    const { securitySchemes: _, ...referable } = components
    const has = Object.entries(referable).flatMap(([kind, named]) =>
      Object.keys(named).map((name) => `#/components/${kind}/${name}`),
    )
    const refers = [...JSON.stringify(description).matchAll(/"\$ref":"([^"]+)"/g)].map(([, target]) => target ?? '')
    expect([...new Set(refers)].sort()).toEqual(has.sort())
  })
})

test('describes the whole contract, and v2 is its /v2 part', () => {
  const ids = Object.keys(api)
  expect(operationsOf('all').map(({ operationId }) => operationId)).toEqual(expect.arrayContaining(ids))
  expect(operationsOf('all')).toHaveLength(ids.length)
  const v2 = Object.entries<Endpoint>(api).filter(([, { path }]) => path.startsWith('/v2'))
  expect(
    operationsOf('v2')
      .map(({ operationId }) => operationId)
      .sort(),
  ).toEqual(v2.map(([id]) => id).sort())
})

test('only public operations need no key', () => {
  const open = operationsOf('all').filter(({ security }) => security.length === 0)
  const expected = Object.entries<Endpoint>(api).filter(([, { access }]) => access === 'public')
  expect(open.map(({ operationId }) => operationId)).toEqual(expected.map(([id]) => id))
})
