/** `berth groups`: containers on several whole machines, with a private network. */
import type { Client, Reply } from '../../client/client.ts'
import { hourlyPrice } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { groupReason, groupTone, linkText } from '../../view/group.ts'
import { tableOf } from '../kit/record.ts'
import { act, list, show, withBody } from '../kit/row.ts'
import { toned } from '../kit/screen.ts'
import { targetOf } from '../kit/target.ts'
import type { Call, Input, Row } from '../kit/row-type.ts'
import { timeAfter, parseHours } from './rental-change.ts'
import { workloadFields, workloadOptions, type WorkloadFlags } from './rent-option.ts'

type Group = Reply<'getGroup'>

const group = targetOf<Group>('group', 'berth groups ls', {
  read: async (client: Client, idOrName) => {
    const { groups } = await client.call('listGroups')
    if (groups.some(({ id, name }) => id === idOrName || name === idOrName)) return groups
    return (await client.call('listGroups', { query: { ended: 'only' } })).groups
  },
  id: 'id',
  name: 'name',
})

interface CreateFlags extends WorkloadFlags {
  readonly image?: string
  readonly hours?: number
}

const { '--mount': _, '--idle': __, '--stop-at': ___, '--user-data': ____, ...nodeOptions } = workloadOptions

export const rows: readonly Row[] = [
  act<'createGroup', CreateFlags>(
    'groups create',
    'createGroup',
    'rent several whole machines with a private network',
    {
      only: ['nodes', 'gpusPerNode', 'gpuModel', 'clusterName', 'region', 'label', 'maxCostPerHourUsd', 'onNodeLoss'],
      flags: {
        nodes: 'machines, with one container each',
        gpusPerNode: '--gpus <n>  GPUs of each machine, which is rented whole',
        gpuModel: '--gpu <model>  GPU, or part of its name',
        clusterName: '--cluster <name>  cluster of the machines; default: the cheapest',
        region: 'region of the machines',
        label: 'label of the group',
        maxCostPerHourUsd: '--max-price <usd>  reject the order if all nodes together would cost more per hour',
        onNodeLoss: '--on-node-loss <action>  what happens when a node fails or is lost',
      },
      options: {
        '--image <image>': 'image to run, such as debian:12',
        ...nodeOptions,
        '--hours <n>': { help: 'terminate it after this many hours', parse: parseHours },
      },
      prepare: prepareOrder,
      notes:
        'Commands and prices begin when every node reaches every other. A group that\nfails before costs nothing. Nodes are named node-0, node-1 and so on;\ntorchrun needs no flags.',
      examples: [
        'berth groups create --nodes 2 --gpus 8 --gpu h100 --image pytorch/pytorch',
        'berth groups create --nodes 4 --gpus 8 --on-node-loss restart --max-price 80',
      ],
      done: ({ name, nodes, costPerHourUsd }) => [
        `Ordered ${name}: ${count(nodes.length, 'node')}, ${hourlyPrice(costPerHourUsd)} from the start of all.`,
        `To follow it: berth groups show ${name} --watch`,
        `To log in once it runs: berth ssh ${name}-0`,
      ],
    },
  ),
  list<'listGroups'>('groups ls', 'listGroups', 'list your groups', {
    columns: [
      'name',
      {
        STATE: ({ state }) => toned(groupTone(state), state),
        NODES: ({ nodes, gpusPerNode, gpuModel }) => `${nodes.length} × ${gpusPerNode} ${gpuModel}`,
        CLUSTER: ({ clusterName }) => clusterName,
        COST: ({ costPerHourUsd }) => hourlyPrice(costPerHourUsd),
        REASON: (one) => groupReason(one) ?? '',
      },
    ],
    noun: 'group',
    empty: 'To order one: berth groups create --nodes 2 --gpus 8',
  }),
  show<'getGroup', unknown, Group>('groups show', 'getGroup', 'show a group with its nodes', {
    target: group,
    facts: [
      'id',
      'name',
      {
        State: ({ state }) => toned(groupTone(state), state),
        Reason: (one) => groupReason(one),
        Cluster: ({ clusterName, region }) => `${clusterName} in ${region}`,
        'On node loss': ({ onNodeLoss, restarts }) =>
          restarts === 0 ? onNodeLoss : `${onNodeLoss}, restarts: ${restarts}`,
        Cost: ({ costPerHourUsd }) => `${hourlyPrice(costPerHourUsd)} while it runs`,
      },
    ],
    content: ({ nodes }) => ['', nodeTable(nodes)],
    examples: ['berth groups show brave-teal-otter --watch'],
  }),
  act<'terminateGroup', unknown, Group>('groups rm', 'terminateGroup', 'terminate a group with its nodes; asks first', {
    target: group,
    confirm: ({ target }) => `Terminate ${target.name} with ${count(target.nodes.length, 'node')} and their disks?`,
    done: ({ name }) => `${name} ends. Nothing more is charged for its nodes.`,
  }),
]

function prepareOrder({ input, options, shell }: Call<CreateFlags>): Input {
  const { image, hours } = options
  return withBody(input, {
    ...workloadFields(shell, options),
    ...(image === undefined ? {} : { image: imageOf(image) }),
    ...(hours === undefined ? {} : { autoTerminateAt: timeAfter(hours) }),
  })
}

/** A colon before a slash separates the port of a registry. */
function imageOf(text: string): { name: string; tag?: string } {
  const at = text.lastIndexOf(':')
  return at < 0 || text.includes('/', at) ? { name: text } : { name: text.slice(0, at), tag: text.slice(at + 1) }
}

function nodeTable(nodes: Group['nodes']) {
  return tableOf(nodes, [
    {
      NODE: ({ hostname }) => hostname,
      STATE: ({ state }) => state,
      ADDRESS: ({ address }) => address,
      RENTAL: ({ rentalName }) => rentalName,
      MACHINE: ({ machineId }) => machineId,
      LINKS: ({ links }) => linkText(links),
      STATUS: ({ statusMessage, statusReason }) => statusMessage ?? statusReason ?? '',
    },
  ])
}
