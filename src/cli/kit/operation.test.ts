/** Every operation of the contract has its place in the command line, or a reason to have none. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadCommandTree, loadRows } from '../../../test/harness/command-tree.ts'
import { api, type OperationId } from '../../contract/api.ts'
import { isInference, type Endpoint } from '../../contract/endpoint.ts'
import { describeOperation } from '../../contract/field.ts'
import { operations } from '../../contract/operation-table.ts'

/** The interface has operations for each kind of rental; commands use those of every kind, such as `createRental`. */
const byKind = [
  'createBareMetalRental',
  'listBareMetalRentals',
  'terminateBareMetalRental',
  'createVirtualMachineRental',
  'listVirtualMachineRentals',
  'terminateVirtualMachineRental',
  'getOnDemandRental',
  'createInstance',
  'createCheapestInstance',
  'listInstances',
  'listInstancesByPost',
  'listInstanceHistory',
  'terminateInstance',
] as const satisfies readonly OperationId[]

/** Reached in another way than by a row or by `client.call`, or not at all. */
const otherwise: Readonly<Partial<Record<OperationId, string>>> = {
  ...Object.fromEntries(byKind.map((id) => [id, 'commands use the operations of every kind'])),
  followEvents: 'berth events -f, with the client’s own reconnecting stream',
  followAllEvents: 'berth events -f --all-accounts',
  getRentalLogs: 'berth logs reads the stream itself',
  listRentalMetrics: 'sparklines of the console; berth metrics shows one machine',
  exportMetrics: 'for Prometheus, which scrapes it',
  listSupply: 'berth supply machines ls and berth supply hosts ls list the two in full',
  tryProvider: 'the form of the console; berth operator providers create adds an account, and check checks it',
  getRevenue: 'the chart of the operator’s first page; berth operator summary shows the sums',
  listCatalogGpus: 'choices of the console; berth deploy --dry-run shows the cheapest',
  countMachines: 'counts for the filters of the console',
  ...Object.fromEntries(
    (
      [
        'countMessageTokens',
        'createMessageBatch',
        'listMessageBatches',
        'getMessageBatch',
        'getMessageBatchResults',
        'cancelMessageBatch',
        'deleteMessageBatch',
        'countResponseTokens',
        'getResponse',
        'deleteResponse',
        'listResponseInput',
      ] as const satisfies readonly OperationId[]
    ).map((id) => [id, 'for programs, which use a client of OpenAI or Anthropic']),
  ),
  downloadJobOutput: 'berth jobs results reads the stream itself',
  getCurrentBalance: 'berth balance shows more, from getCustomerBalance',
}

const folder = path.join(import.meta.dirname, '..')
const source = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
  .map((file) => readFileSync(path.join(folder, file), 'utf8'))
  .join('\n')

test('every operation is a command, is called by one, or has a reason to be neither', async () => {
  const inRows = new Set((await loadRows()).map(({ operation }) => operation))
  const isReached = (id: OperationId): boolean => inRows.has(id as never) || new RegExp(`(?<!<)'${id}'`).test(source)
  const ids = Object.keys(api) as OperationId[]
  // A command runs a model of each kind; the other protocols are for programs.
  const runners = ['createChatCompletion', 'createEmbedding', 'generateImage', 'generateAudio']
  const isProtocol = (id: OperationId): boolean => isInference(api[id]) && !runners.includes(id)
  // These take the cookie of a browser.
  const isPersons = (id: OperationId): boolean => (api[id] as Endpoint).access === 'person'
  expect(
    ids.filter((id) => !isReached(id) && !isProtocol(id) && !isPersons(id) && otherwise[id] === undefined),
  ).toEqual([])
  expect(ids.filter((id) => isReached(id) && otherwise[id] !== undefined)).toEqual([])
})

test('every flag and argument of every command has help', async () => {
  const lacking: string[] = []
  const visit = (command: Awaited<ReturnType<typeof loadCommandTree>>, words: string): void => {
    for (const { flags, description } of command.options) if (description === '') lacking.push(`${words} ${flags}`)
    for (const one of command.registeredArguments) if (one.description === '') lacking.push(`${words} ${one.name()}`)
    for (const one of command.commands) visit(one, `${words} ${one.name()}`)
  }
  visit(await loadCommandTree(), 'berth')
  expect(lacking).toEqual([])
})

describe('fields of an operation', () => {
  const field = (operation: OperationId, name: string) =>
    operations[operation].fields.find(({ path: at }) => at.at(-1) === name)

  test('have the limits, choices and defaults of the schema', () => {
    expect(field('createJoinToken', 'uses')).toMatchObject({ kind: 'integer', min: 1, max: 1_000, default: 1 })
    expect(field('createVolume', 'sizeInGb')).toMatchObject({ min: 256, max: 64_000, step: 256, required: true })
    expect(field('addMember', 'role')).toMatchObject({ choices: ['owner', 'member', 'viewer'], required: true })
    expect(field('createApiKey', 'scopes')).toMatchObject({ list: true, required: true })
    expect(field('changeAccount', 'platformFeePercentage')).toMatchObject({ kind: 'number', nullable: true })
    expect(field('changeAccount', 'gpus')).toMatchObject({ part: 'body', path: ['quota', 'gpus'] })
    expect(field('listAllRentals', 'stuck')).toMatchObject({ part: 'query', kind: 'boolean' })
    expect(field('createApiKey', 'expiresAt')).toMatchObject({ kind: 'time' })
    expect(field('creditAccount', 'amountUsd')?.hint).toContain('USD')
  })

  test('leave out fields that a flag cannot hold', () => {
    const { fields } = describeOperation(api.createBareMetalRental)
    expect(fields.map(({ path: at }) => at.join('.'))).not.toContain('storageVolume')
  })
})
