/**
 * Banned constructs, and why. A ban sees the parsed program, so a word in a comment or a text does no harm.
 * `sample` must be caught, which proves that the rule works. Each exception has a reason.
 */
import { Visitor, type ParseResult } from 'rolldown/utils'
import { providerData, type ProviderId } from '../../src/contract/provider-data.ts'
import { isCode, isTest, lineOf, type Source } from './source.ts'

type Program = ParseResult['program']
type Handlers = NonNullable<ConstructorParameters<typeof Visitor>[0]>
type Pattern = Parameters<NonNullable<Handlers['FunctionDeclaration']>>[0]['params'][number]
type Node =
  | Parameters<NonNullable<Handlers['CallExpression']>>[0]['callee']
  | { readonly type: string; readonly start: number }

export interface Ban {
  readonly name: string
  readonly instead: string
  readonly sample: string
  readonly counts: (path: string) => boolean
  /** Exceptions by path, with the reason. */
  readonly except?: Readonly<Record<string, string>>
  readonly handlers: (found: (node: { readonly start: number }) => void) => Handlers
}

export function findBanned(ban: Ban, source: Source): string[] {
  const lines: string[] = []
  const program: Program = source.program
  new Visitor(ban.handlers((node) => lines.push(`${source.path}:${lineOf(source, node.start)}`))).visit(program)
  return lines
}

const inCode = isCode
const inTests = isTest
const anywhere = (): boolean => true

/** `a.b` as text, for the plain cases. */
function nameOf(node: Node): string {
  if (node.type === 'Identifier' && 'name' in node) return node.name
  if (node.type !== 'MemberExpression' || !('object' in node) || !('property' in node)) return ''
  const property = node.property as { name?: string; value?: unknown }
  return `${nameOf(node.object)}.${property.name ?? String(property.value)}`
}

const queryMethod =
  /\.(selectFrom|selectNoFrom|insertInto|updateTable|deleteFrom|mergeInto|executeQuery)$|\bpool\.query$/

const moneyName = /nano|usd|amount|price|cost|balance/i

/** Whether a name in the expression looks like money. */
function mentionsMoney(node: unknown): boolean {
  return [...asText(node).matchAll(/"name":"([^"]*)"/g)].some(([, name = '']) => moneyName.test(name))
}

/** A part of the program as JSON, for patterns at any depth. */
function asText(node: unknown): string {
  return JSON.stringify(node ?? null, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))
}

const providers = new Set(providerData.options.flatMap(({ shape }) => [...shape.providerId.values]))

function isProviderId(node: Node): boolean {
  return node.type === 'Literal' && 'value' in node && providers.has(node.value as ProviderId)
}

/** Other things are called `host` too: headers, kinds of gauges. */
function mentionsDriver(node: unknown): boolean {
  return /"name":"[^"]*(driver|provider|engine)/i.test(asText(node))
}

const bareParticiple = /^(found|wanted|made|shown|asked|kept|said|told)$/
const vagueWord = /^(known|own|left|seen|taken|rest|given|here|late|heard)$/

/** Whether a parameter or the left side of a declaration introduces such a name, at any depth of a pattern. */
function bindsName(pattern: Pattern | null, names: RegExp): boolean {
  switch (pattern?.type) {
    case 'Identifier':
      return names.test(pattern.name)
    case 'ObjectPattern':
      return pattern.properties.some((one) => bindsName(one.type === 'RestElement' ? one : one.value, names))
    case 'ArrayPattern':
      return pattern.elements.some((one) => bindsName(one, names))
    case 'AssignmentPattern':
      return bindsName(pattern.left, names)
    case 'TSParameterProperty':
      return bindsName(pattern.parameter, names)
    case 'RestElement':
      // `...rest` and its like are what a pattern leaves out.
      return names !== vagueWord && bindsName(pattern.argument, names)
    case undefined:
      return false
  }
}

function variablesNamed(names: RegExp): Ban['handlers'] {
  return (found) => {
    const checkParams = ({ params }: { readonly params: readonly Pattern[] }): void =>
      params.filter((param) => bindsName(param, names)).forEach(found)
    return {
      VariableDeclarator: (node) => bindsName(node.id, names) && found(node),
      FunctionDeclaration: checkParams,
      FunctionExpression: checkParams,
      ArrowFunctionExpression: checkParams,
    }
  }
}

export const bans: readonly Ban[] = [
  {
    name: 'reads the system time',
    instead: 'take a Clock (base/instant.ts)',
    sample: 'const a = Date.now(); const b = new Date()',
    counts: anywhere,
    except: { 'src/base/instant.ts': 'systemClock is the only place' },
    handlers: (found) => ({
      CallExpression: (node) => ['Date.now', 'Date'].includes(nameOf(node.callee)) && found(node),
      NewExpression: (node) => nameOf(node.callee) === 'Date' && node.arguments.length === 0 && found(node),
    }),
  },
  {
    name: 'uses Math.random',
    instead: 'node:crypto for secrets, an argument for the rest',
    sample: 'const jitter = Math.random()',
    counts: anywhere,
    except: { 'src/reconcile/deliver-webhooks.ts': 'default of an argument: the jitter of retries' },
    handlers: (found) => ({ MemberExpression: (node) => nameOf(node) === 'Math.random' && found(node) }),
  },
  {
    name: 'joins a signal with a timeout that is collected as garbage',
    instead: 'signalWithin (base/signal-within.ts)',
    sample: 'const both = AbortSignal.any([signal, AbortSignal.timeout(1)])',
    counts: inCode,
    handlers: (found) => ({
      CallExpression: (node) =>
        nameOf(node.callee) === 'AbortSignal.any' &&
        /"name":"AbortSignal".*"name":"timeout"/.test(asText(node.arguments)) &&
        found(node),
    }),
  },
  {
    name: 'converts money to a float',
    instead: 'base/money.ts, which names each conversion',
    sample: 'const a = Number(row.cost_nano); const b = Number.parseFloat(priceUsd); const c = +balance',
    counts: inCode,
    except: { 'src/base/money.ts': 'the only place' },
    handlers: (found) => ({
      CallExpression: (node) =>
        ['Number', 'parseFloat', 'Number.parseFloat'].includes(nameOf(node.callee)) &&
        mentionsMoney(node.arguments[0]) &&
        found(node),
      UnaryExpression: (node) => node.operator === '+' && mentionsMoney(node.argument) && found(node),
    }),
  },
  {
    name: 'compares driver names',
    instead: 'Driver.traits (drivers/driver.ts), or a column of the row',
    sample: "if (rental.driver === 'mock' || drivers.has('host')) sql`where driver = 'mock'`",
    counts: (path) => isCode(path) && !isTest(path),
    except: { 'src/server/parts/machine-drivers.ts': 'builds the drivers by the names in the settings' },
    handlers: (found) => ({
      BinaryExpression: ({ left, right, start }) => {
        if ((isProviderId(left) && mentionsDriver(right)) || (isProviderId(right) && mentionsDriver(left)))
          found({ start })
      },
      SwitchStatement: ({ discriminant, cases, start }) => {
        if (mentionsDriver(discriminant) && cases.some(({ test }) => test !== null && isProviderId(test)))
          found({ start })
      },
      CallExpression: (node) => {
        const [first] = node.arguments
        const isLookup = /[dD]rivers\.(has|get)$/.test(nameOf(node.callee))
        if (isLookup && first !== undefined && isProviderId(first)) found(node)
      },
      TemplateElement: (node) => /\bdriver\s*(=|<>|!=|in)\s*\(?'/.test(node.value.raw) && found(node),
    }),
  },
  {
    name: 'queries the database outside the store',
    instead: 'a function in src/store; lease rows and release them with store/platform/lease.ts',
    sample:
      "import { sql } from 'kysely'; await tx.db.updateTable('rental').execute(); await database.pool.query('select 1')",
    counts: (path) => isCode(path) && !path.startsWith('src/store/'),
    except: {
      'src/server/data/embedded-postgres.ts': 'starts PostgreSQL and connects before the database exists',
      'src/server/data/backup.ts': 'sets up a replication slot for pg_basebackup, on a separate connection',
    },
    handlers: (found) => ({
      ImportDeclaration: (node) => ['kysely', 'pg'].includes(node.source.value) && found(node),
      TaggedTemplateExpression: (node) => nameOf(node.tag) === 'sql' && found(node),
      MemberExpression: (node) => queryMethod.test(nameOf(node)) && found(node),
    }),
  },
  {
    name: 'writes to the console',
    instead: 'the log, or process.stdout in a main.ts',
    sample: "console.log('here')",
    counts: (path) => isCode(path) || isTest(path),
    handlers: (found) => ({ MemberExpression: (node) => nameOf(node).startsWith('console.') && found(node) }),
  },
  {
    name: 'reads the environment',
    instead: 'an argument; settings.ts reads it once',
    sample: 'const level = process.env.BERTH_LOG_LEVEL',
    counts: inCode,
    except: {
      'src/server/main.ts': 'the entry of the server',
      'src/cli/main.ts': 'the entry of the command',
      'src/server/data/backup-main.ts': 'the entry of backup and restore',
      'src/engines/container/main.ts': 'the entry of the engine image',
      'src/base/process-start.ts': 'passes it to ps',
      'src/server/data/embedded-postgres.ts': 'passes PATH and HOME to PostgreSQL',
    },
    handlers: (found) => ({ MemberExpression: (node) => nameOf(node) === 'process.env' && found(node) }),
  },
  {
    name: 'sleeps',
    instead: 'waitFor (test/harness/wait.ts) waits for a fact; a test advances a ManualClock',
    sample: 'await new Promise((resolve) => setTimeout(resolve, 100))',
    counts: inTests,
    except: {
      'test/harness/wait.ts': 'between two polls',
      'test/sim/clouds/server.ts': 'the latency of a vendor',
      'test/harness/load.ts': 'between two attempts, while the server is down',
      'test/lab/payment-load.ts': 'customers and messages take their time, and the server may be down',
      'test/crash.lab.test.ts': 'the kill happens at a random time on purpose',
      'test/crash-kubernetes.lab.test.ts': 'kills and ends happen at random times on purpose',
      'src/server/events/event-stream.test.ts': 'a slow client',
      'test/harness/listener-fuzz.ts': 'an end that says nothing, after which nothing follows',
    },
    handlers: (found) => ({
      NewExpression: (node) => {
        const [executor] = node.arguments
        if (nameOf(node.callee) !== 'Promise' || executor?.type !== 'ArrowFunctionExpression') return
        const [resolve] = executor.params
        const body = asText(executor.body)
        const waits = resolve?.type === 'Identifier' && body.includes('"name":"setTimeout"')
        // `setTimeout(() => reject(…))` is a limit, not a wait.
        if (waits && new RegExp(`"arguments":\\[\\{"type":"Identifier"[^}]*"name":"${resolve.name}"`).test(body))
          found(node)
      },
      ImportDeclaration: (node) => node.source.value === 'node:timers/promises' && found(node),
    }),
  },
  {
    name: 'skips tests',
    instead: 'run all of them, or delete the test',
    sample: "test.only('one', () => {}); describe.skip('two', () => {}); it.todo('three')",
    counts: inTests,
    handlers: (found) => ({
      MemberExpression: (node) => /^(test|it|describe)(\..+)?\.(only|skip|todo)$/.test(nameOf(node)) && found(node),
    }),
  },
  {
    name: 'mocks our own modules',
    instead: 'real modules on a real database',
    sample: "vi.mock('./ledger.ts')",
    counts: inTests,
    handlers: (found) => ({ CallExpression: (node) => /^vi\.(mock|doMock)$/.test(nameOf(node.callee)) && found(node) }),
  },
  {
    name: 'registers test hooks at module level',
    instead:
      'onTestFinished in the function that opens a resource, or a close that the test calls: modules run once per worker',
    sample: 'if (isSlow) beforeAll(warmUp); afterEach(() => close())',
    counts: (path) => !path.endsWith('.test.ts'),
    handlers: (found) => {
      let depth = 0
      const enter = (): void => void (depth += 1)
      const leave = (): void => void (depth -= 1)
      return {
        FunctionDeclaration: enter,
        FunctionExpression: enter,
        ArrowFunctionExpression: enter,
        'FunctionDeclaration:exit': leave,
        'FunctionExpression:exit': leave,
        'ArrowFunctionExpression:exit': leave,
        CallExpression: (node) =>
          depth === 0 && /^((before|after|around)(Each|All)|onTest\w+)$/.test(nameOf(node.callee)) && found(node),
      }
    },
  },
  {
    name: 'disables type checking',
    instead: 'unknown, and a check',
    sample: 'const a = b as any',
    counts: anywhere,
    handlers: (found) => ({ TSAsExpression: (node) => node.typeAnnotation.type === 'TSAnyKeyword' && found(node) }),
  },
  {
    name: 'has an enum or a namespace',
    instead: 'a union of strings; a file',
    sample: 'enum State { On }; namespace Space { export const a = 1 }',
    counts: anywhere,
    handlers: (found) => ({
      TSEnumDeclaration: found,
      // `declare module 'vitest'` adds to another's types and has no other form.
      TSModuleDeclaration: (node) => node.id.type === 'Identifier' && found(node),
    }),
  },
  {
    name: 'has a default export',
    instead: 'a name that can be searched for',
    sample: 'export default 1',
    counts: (path) => !path.endsWith('.config.ts') && !path.startsWith('test/harness/'),
    handlers: (found) => ({ ExportDefaultDeclaration: found }),
  },
  {
    name: 're-exports from another file',
    instead: 'import it from its own file',
    sample: "export { post } from './ledger.ts'",
    counts: inCode,
    handlers: (found) => ({
      ExportAllDeclaration: found,
      ExportNamedDeclaration: (node) => node.source !== null && found(node),
    }),
  },
  {
    name: 'names a variable with a bare participle',
    instead: 'a noun for the thing: machines, not found; request, not asked',
    sample: 'const found = 1; for (const { size: kept = 0 } of sizes) tell((asked) => asked)',
    counts: (path) => /^(src|console)\//.test(path),
    handlers: variablesNamed(bareParticiple),
  },
  {
    name: 'names a variable with a vague word',
    instead: 'what the variable holds: existingRow, not known; share, not own; bytesLeft, not left',
    sample: 'const known = 1; for (const { size: left = 0 } of sizes) tell((given) => given)',
    counts: inCode,
    handlers: variablesNamed(vagueWord),
  },
]
