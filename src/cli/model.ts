/** `berth models` and `berth deployments`. The key of a deployment is never an argument, which other users could see. */
import { modelPlaces, modelPrice, type Deployment } from '../view/model.ts'
import { count, number } from '../view/number.ts'
import { addModelRow, readUpstream, upstreamFlags, upstreamOptions } from './model-add.ts'
import { factFlags, priceFlags } from './model-flag.ts'
import { pullRow } from './model-pull.ts'
import { deploymentCell, localLabel, modelCell } from './model-state.ts'
import { act, custom, list } from './row.ts'
import { printable, table, type Cell } from './screen.ts'
import { CliError, exitCodes } from './shell.ts'
import type { Row } from './row-type.ts'

const NAME = { name: '<name>', help: 'name, as shown by berth models ls', field: 'name' }
const REASON = { reason: { help: 'reason, recorded in the audit log' } }

const modelRows: readonly Row[] = [
  list({
    command: 'models ls',
    operation: 'listOperatedModels',
    rows: 'models',
    description: 'list models: state, prices, deployments',
    noun: 'model',
    empty: ['No models are on sale.', 'To add one: berth models add NAME --upstream URL, or --gguf FILE'],
    columns: [
      { title: 'NAME', of: (model) => model.name },
      { title: 'KIND', of: (model) => model.kind },
      { title: 'STATE', of: modelCell },
      { title: 'PRICE', of: modelPrice },
      { title: 'RUNS ON', of: modelPlaces },
      {
        title: 'CONTEXT',
        right: true,
        of: ({ contextTokens }) => (contextTokens === null ? '' : number(contextTokens)),
      },
    ],
    below: (models, { screen }) =>
      models.flatMap(({ name, local }) =>
        local?.state === 'failed' ? [screen.paint('red', printable(`${name} ${localLabel(local)}`))] : [],
      ),
    examples: ['berth models ls'],
  }),
  addModelRow(),
  pullRow,
  act({
    command: 'models change',
    operation: 'changeModel',
    description: 'change the context length and capabilities of a model',
    args: [NAME],
    flags: {
      contextTokens: { ...factFlags.contextTokens, help: 'context length; none: as the engine reports it' },
      maxOutputTokens: { ...factFlags.maxOutputTokens, help: 'longest answer; none: no limit' },
      supportsTools: { ...factFlags.supportsTools, off: ['--no-tools', 'it cannot call tools'] },
      supportsImageInput: { ...factFlags.supportsImageInput, off: ['--no-image-input', 'it accepts no images'] },
      ...hidden(priceFlags),
      enabled: false,
      ...REASON,
    },
    done: ({ name }) => `Changed ${name}.`,
    examples: ['berth models change owner/small --context 8192 --tools'],
  }),
  act({
    command: 'models price',
    operation: 'changeModel',
    description: 'set the prices of a model, effective from the next request',
    args: [NAME],
    flags: { ...priceFlags, ...hidden(factFlags), enabled: false, ...REASON },
    done: (model) => `${model.name} now costs ${modelPrice(model)}.`,
    examples: ['berth models price owner/small --input-price 0.04 --reason "sale"'],
  }),
  switchRow('enable', true),
  switchRow('disable', false),
  act({
    command: 'models rm',
    operation: 'deleteModel',
    description: 'delete a model and its deployments',
    args: [NAME],
    done: (_, { args }) => `Deleted ${String(args[0])}. Its revenue stays in the ledger.`,
    examples: ['berth models rm owner/small'],
  }),
]

function hidden(flags: object): Record<string, false> {
  return Object.fromEntries(Object.keys(flags).map((name) => [name, false]))
}

function switchRow(verb: string, enabled: boolean): Row {
  return act({
    command: `models ${verb}`,
    operation: 'changeModel',
    description: enabled ? 'put a model on sale again' : 'take a model off sale, but keep it',
    args: [NAME],
    only: ['name'],
    fixed: { enabled },
    done: ({ name }) => `${name} is ${enabled ? 'on sale again' : 'off sale'}.`,
    examples: [`berth models ${verb} owner/small`],
  })
}

const ID = { name: '<id>', help: 'id, as shown by berth deployments ls', field: 'id' }

const deploymentFlags = {
  weight: { help: 'share of the traffic; 0 for no new requests' },
  concurrency: { help: 'concurrent requests' },
  connectMs: { flag: '--connect-timeout <ms>', help: 'time to connect' },
  firstByteMs: { flag: '--first-byte-timeout <ms>', help: 'time to the first byte' },
  betweenBytesMs: { flag: '--idle-timeout <ms>', help: 'time between two bytes' },
  totalMs: { flag: '--total-timeout <ms>', help: 'time of a whole request' },
  readsMetrics: { flag: '--reads-metrics', help: 'read its load from /metrics' },
  ...REASON,
} as const

const { protocol: _, ...withoutProtocol } = upstreamFlags

const deploymentRows: readonly Row[] = [
  custom<{ model?: string }>({
    command: 'deployments ls',
    operation: 'listOperatedModels',
    description: 'list deployments and their health',
    options: [{ flag: '--model <name>', help: 'only this model' }],
    run: async ({ client, screen, options: { model } }) => {
      const { models } = await client.call('listOperatedModels')
      const wanted = models.filter(({ name }) => model === undefined || name === model)
      if (wanted.length === 0 && model !== undefined) {
        throw new CliError(exitCodes.failed, `There is no model ${model}.`, ['To list them: berth models ls'])
      }
      const deployments = wanted.flatMap((one) => one.deployments)
      screen.show({ deployments }, () =>
        deployments.length === 0
          ? ['There are no deployments.', 'To add one: berth deployments add MODEL --upstream URL']
          : [...table(screen, columns, deployments.map(cellsOf)), '', count(deployments.length, 'deployment')],
      )
    },
    examples: ['berth deployments ls'],
  }),
  act({
    command: 'deployments add',
    operation: 'createDeployment',
    description: 'add a server that runs a model',
    args: [{ name: '<model>', help: 'name, as shown by berth models ls', field: 'model' }],
    flags: { ...upstreamFlags, ...deploymentFlags, apiKey: false },
    options: upstreamOptions,
    prepare: ({ input, shell, options }) => ({
      ...input,
      parts: { body: { ...input.parts.body, ...readUpstream(shell, options as object) } },
    }),
    done: (made) => `${made.url} now serves ${made.model} as ${made.id}.`,
    examples: ['berth deployments add owner/large --upstream http://10.0.0.8:8000'],
  }),
  act({
    command: 'deployments change',
    operation: 'changeDeployment',
    description: 'change the URL, key, limits or timeouts of a deployment',
    args: [ID],
    flags: { ...withoutProtocol, ...deploymentFlags, weight: false, drained: false, apiKey: false },
    options: upstreamOptions,
    prepare: ({ input, shell, options }) => ({
      ...input,
      parts: { ...input.parts, body: { ...input.parts.body, ...readUpstream(shell, options as object) } },
    }),
    done: ({ id }) => `Changed ${id}.`,
    examples: ['berth deployments change ID --concurrency 64'],
  }),
  act({
    command: 'deployments weight',
    operation: 'changeDeployment',
    description: 'change its share of the traffic; 0 for no new requests',
    args: [ID, { name: '<n>', help: 'from 0 to 1000', field: 'weight' }],
    only: [],
    done: ({ id, weight }) => `${id} now has weight ${weight}.`,
    examples: ['berth deployments weight ID 3'],
  }),
  ...(['drain', 'resume'] as const).map((verb) =>
    act({
      command: `deployments ${verb}`,
      operation: 'changeDeployment',
      description: verb === 'drain' ? 'stop sending it requests; current ones finish' : 'send it requests again',
      args: [ID],
      only: [],
      fixed: { drained: verb === 'drain' },
      done: ({ id }) => (verb === 'drain' ? `${id} is drained.` : `${id} is in use again.`),
      examples: [`berth deployments ${verb} ID`],
    }),
  ),
  act({
    command: 'deployments rm',
    operation: 'deleteDeployment',
    description: 'delete a deployment',
    args: [ID],
    done: (_, { args }) => `Deleted ${String(args[0])}.`,
    examples: ['berth deployments rm ID'],
  }),
]

const columns = [
  { title: 'ID' },
  { title: 'MODEL' },
  { title: 'URL' },
  { title: 'PROTOCOL' },
  { title: 'STATE' },
  { title: 'WEIGHT', right: true },
  { title: 'BUSY', right: true },
  { title: 'FAULTS', right: true },
] as const

function cellsOf(one: Deployment): Cell[] {
  return [
    one.id,
    one.model,
    one.url,
    one.protocol,
    deploymentCell(one),
    String(one.weight),
    `${one.health?.inFlight ?? 0} of ${one.concurrency}`,
    String(one.health?.faults ?? 0),
  ]
}

export const rows: readonly Row[] = [...modelRows, ...deploymentRows]
