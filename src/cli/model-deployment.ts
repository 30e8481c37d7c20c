/** `berth deployments`: the servers that run models elsewhere, and how they do. */
import { randomUUID } from 'node:crypto'
import { InvalidArgumentError, type Command } from 'commander'
import { count } from '../view/number.ts'
import { withNextStep } from './failure.ts'
import { addUpstreamOptions, parseModelName, upstreamOf, modelSteps, type UpstreamOptions } from './model-option.ts'
import { isInUse, type Deployment } from './model-state.ts'
import { table, type Cell, type Screen } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

export function addDeploymentCommands(program: Command, run: Run, shell: Shell): void {
  const deployments = program
    .command('deployments')
    .description('the servers that run models')
    .usage(GROUP_USAGE)
    .commandsGroup('Operators:')
  addList(deployments, run)
  addAdd(deployments, run, shell)
  addWeight(deployments, run)
  addDrain(deployments, run, 'drain', true)
  addDrain(deployments, run, 'resume', false)
  addRemove(deployments, run)
}

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

function addList(deployments: Command, run: Run): void {
  const list = deployments
    .command('ls', { isDefault: true })
    .description('servers, and how they do')
    .option('--model <name>', 'only those of this model', parseModelName)
  list.action(
    run('operator', async ({ client, screen }) => {
      const { model } = list.opts<{ model?: string }>()
      const { models } = await client.call('listOperatedModels')
      const wanted = models.filter(({ name }) => model === undefined || name === model)
      if (wanted.length === 0 && model !== undefined) {
        throw new CliError(exitCodes.failed, `There is no model ${model}.`, ['berth models ls lists the models.'])
      }
      const found = wanted.flatMap((one) => one.deployments)
      screen.show({ deployments: found }, () => listLines(screen, found))
    }),
  )
}

function listLines(screen: Screen, deployments: readonly Deployment[]): string[] {
  if (deployments.length === 0) {
    return ['There are no deployments.', 'Add one: berth deployments add MODEL --upstream URL']
  }
  const rows = deployments.map((one): Cell[] => [
    one.id,
    one.model,
    one.url,
    one.protocol,
    stateCell(one),
    String(one.weight),
    `${one.health?.inFlight ?? 0} of ${one.concurrency}`,
    String(one.health?.faults ?? 0),
  ])
  return [...table(screen, columns, rows), '', count(deployments.length, 'deployment')]
}

function stateCell(deployment: Deployment): Cell {
  if (deployment.drained) return { text: 'drained', style: 'yellow' }
  if (!isInUse(deployment)) return { text: 'weight 0', style: 'yellow' }
  switch (deployment.health?.breaker) {
    case 'open':
      return { text: 'fails', style: 'red' }
    case 'half_open':
      return { text: 'is tried', style: 'yellow' }
    case 'closed':
    case undefined:
      return { text: 'in use', style: 'green' }
  }
}

function addAdd(deployments: Command, run: Run, shell: Shell): void {
  const add = deployments
    .command('add')
    .description('name a server that runs a model')
    .argument('<model>', 'as berth models ls shows it', parseModelName)
  addUpstreamOptions(add)
    .option('--weight <n>', 'its share beside the others (1)', parseWeight)
    .option('--concurrency <n>', 'requests at a time (32)', parseConcurrency)
    .option('--reads-metrics', 'its /metrics say how busy it is')
  add.action(
    run('operator', async ({ client, screen }, model = '') => {
      const options = add.opts<UpstreamOptions & { weight?: number; concurrency?: number; readsMetrics?: true }>()
      const { upstream, weight, concurrency, readsMetrics } = options
      if (upstream === undefined) {
        throw new CliError(exitCodes.usage, 'Say which server.', [
          `Such as: berth deployments add ${model} --upstream http://10.0.0.17:8000`,
        ])
      }
      const body = {
        model,
        ...upstreamOf(shell, { ...options, upstream }),
        ...(weight === undefined ? {} : { weight }),
        ...(concurrency === undefined ? {} : { concurrency }),
        ...(readsMetrics === undefined ? {} : { readsMetrics }),
      }
      const made = await withNextStep(
        client.call('createDeployment', { body, idempotencyKey: randomUUID() }),
        modelSteps,
      )
      screen.show(made, () => [`${made.url} serves ${model} now, as ${made.id}.`])
    }),
  )
}

const ID_HELP = 'as berth deployments ls shows it'

function addWeight(deployments: Command, run: Run): void {
  deployments
    .command('weight')
    .description('change its share; 0 takes nothing new')
    .argument('<id>', ID_HELP, parseId)
    .argument('<n>', 'from 0 to 1000', parseWeight)
    .action(
      run('operator', async ({ client, screen }, id = '', n = '') => {
        const changed = await withNextStep(
          client.call('changeDeployment', { params: { id }, body: { weight: Number(n) } }),
          modelSteps,
        )
        screen.show(changed, () => [`${id} has the weight ${changed.weight} now.`])
      }),
    )
}

function addDrain(deployments: Command, run: Run, verb: 'drain' | 'resume', drained: boolean): void {
  deployments
    .command(verb)
    .description(drained ? 'give it nothing new; it ends what it has' : 'use it again')
    .argument('<id>', ID_HELP, parseId)
    .action(
      run('operator', async ({ client, screen }, id = '') => {
        const changed = await withNextStep(
          client.call('changeDeployment', { params: { id }, body: { drained } }),
          modelSteps,
        )
        screen.show(changed, () => [drained ? `${id} takes nothing new.` : `${id} is in use again.`])
      }),
    )
}

function addRemove(deployments: Command, run: Run): void {
  deployments
    .command('rm')
    .description('take it away')
    .argument('<id>', ID_HELP, parseId)
    .action(
      run('operator', async ({ client, screen }, id = '') => {
        const answer = await withNextStep(client.call('deleteDeployment', { params: { id } }), modelSteps)
        screen.show(answer, () => [`${id} is gone.`])
      }),
    )
}

function parseId(text: string): string {
  if (!/^\w{1,100}$/.test(text)) throw new InvalidArgumentError('An id reads dep_…')
  return text
}

function parseWeight(text: string): number {
  return parseWhole(text, 0, 1_000)
}

function parseConcurrency(text: string): number {
  return parseWhole(text, 1, 100_000)
}

function parseWhole(text: string, least: number, most: number): number {
  const n = /^\d{1,6}$/.test(text) ? Number.parseInt(text, 10) : Number.NaN
  if (!(n >= least && n <= most)) throw new InvalidArgumentError(`From ${least} to ${most}.`)
  return n
}
