/** `berth models`: what is offered, what it costs, and how far it is. */
import type { Command } from 'commander'
import { count } from '../view/number.ts'
import { addAddCommand } from './model-add.ts'
import { withNextStep } from './failure.ts'
import { addPriceOptions, parseModelName, pricesOf, modelSteps, type PriceOptions } from './model-option.ts'
import { addPullCommand } from './model-pull.ts'
import { localWords, placeWords, priceWords, stateCell, type Model } from './model-state.ts'
import { printable, table, type Cell, type Screen } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

export function addModelCommands(program: Command, run: Run, shell: Shell): void {
  const models = program
    .command('models')
    .description('the models that are offered')
    .usage(GROUP_USAGE)
    .commandsGroup('Operators:')
  addList(models, run)
  addAddCommand(models, run, shell)
  addPullCommand(models, run, shell)
  addPrice(models, run)
  addSwitch(models, run, 'enable', true)
  addSwitch(models, run, 'disable', false)
  addRemove(models, run)
}

const columns = [
  { title: 'NAME' },
  { title: 'KIND' },
  { title: 'STATE' },
  { title: '$ A MILLION' },
  { title: 'RUNS ON' },
  { title: 'CONTEXT', right: true },
] as const

function addList(models: Command, run: Run): void {
  models
    .command('ls', { isDefault: true })
    .description('models, their state, price and servers')
    .action(
      run('operator', async ({ client, screen }) => {
        const answer = await client.call('listOperatedModels')
        screen.show(answer, () => listLines(screen, answer.models))
      }),
    )
}

function listLines(screen: Screen, models: readonly Model[]): string[] {
  if (models.length === 0) {
    return ['No models are offered.', 'Offer one: berth models add NAME --upstream URL, or --gguf FILE']
  }
  const failures = models.flatMap(({ name, local }) =>
    local?.state === 'failed' ? [screen.paint('red', printable(`${name} ${localWords(local)}`))] : [],
  )
  return [
    ...table(
      screen,
      columns,
      models.map((model): Cell[] => [
        model.name,
        model.kind,
        stateCell(model),
        priceWords(model),
        placeWords(model),
        model.contextTokens?.toLocaleString('en-US') ?? '',
      ]),
    ),
    '',
    ...failures,
    count(models.length, 'model'),
  ]
}

function addPrice(models: Command, run: Run): void {
  const price = models
    .command('price')
    .description('change what it costs, from the next request on')
    .argument('<name>', 'as berth models ls shows it', parseModelName)
  addPriceOptions(price).option('--reason <text>', 'why; it stands in the audit log')
  price.action(
    run('operator', async ({ client, screen }, name = '') => {
      const options = price.opts<PriceOptions & { reason?: string }>()
      const prices = pricesOf(options)
      if (Object.keys(prices).length === 0) {
        throw new CliError(exitCodes.usage, 'Say which price.', [
          `Such as: berth models price ${name} --input-price 0.20 --output-price 0.60`,
        ])
      }
      const reason = options.reason === undefined ? {} : { reason: options.reason }
      const model = await withNextStep(
        client.call('changeModel', { query: { name }, body: { ...prices, ...reason } }),
        modelSteps,
      )
      screen.show(model, () => [`${name} costs ${priceWords(model)} (USD a million) from now on.`])
    }),
  )
}

function addSwitch(models: Command, run: Run, verb: 'enable' | 'disable', enabled: boolean): void {
  models
    .command(verb)
    .description(enabled ? 'offer it again' : 'keep it, but do not offer it')
    .argument('<name>', 'as berth models ls shows it', parseModelName)
    .action(
      run('operator', async ({ client, screen }, name = '') => {
        const model = await withNextStep(client.call('changeModel', { query: { name }, body: { enabled } }), modelSteps)
        screen.show(model, () => [enabled ? `${name} is offered again.` : `${name} is no longer offered.`])
      }),
    )
}

function addRemove(models: Command, run: Run): void {
  models
    .command('rm')
    .description('take it away, with its deployments')
    .argument('<name>', 'as berth models ls shows it', parseModelName)
    .action(
      run('operator', async ({ client, screen }, name = '') => {
        const answer = await withNextStep(client.call('deleteModel', { query: { name } }), modelSteps)
        screen.show(answer, () => [`${name} is gone. What it earned stays in the books.`])
      }),
    )
}
