/** The program of a worker, started by its server (workers.ts). It ends with the server. */
import { openChannel, type Line } from './channel.ts'
import type { ServerFunctions, WorkerFunctions } from './messages.ts'
import { startWorker, type RunningWorker } from './worker.ts'

let running: RunningWorker | undefined

function worker(): RunningWorker {
  if (running === undefined) throw new Error('the worker has not started')
  return running
}

const ours: WorkerFunctions = {
  start: async (options) => {
    running = await startWorker(server, options)
  },
  setCatalog: (catalog) => running?.setCatalog(catalog),
  forgetKeys: (changed) => running?.forgetKeys(changed),
  keysAreFresh: () => running?.keysAreFresh(),
  giveUpMoney: (owner) => worker().giveUpMoney(owner),
  recallMoney: (accountId) => worker().recallMoney(accountId),
  giveUpRate: (subject, minute) => worker().giveUpRate(subject, minute),
  giveUpPlaces: (accountId) => worker().giveUpPlaces(accountId),
  costsOf: (requestIds) => worker().costsOf(requestIds),
  metrics: () => worker().metrics(),
  journalState: () => worker().journalState(),
  startDraining: () => running?.startDraining(),
  close: async (finishMs) => {
    await running?.close(finishMs)
  },
}

const server = openChannel<ServerFunctions, WorkerFunctions>({
  line: process as unknown as Line,
  ours,
  onSocket: (socket, bytes) => worker().take(socket, bytes),
  // Without its server it has no money and cannot settle; what it has finished is in its journal.
  onEnd: () => process.exit(1),
})

// A signal to the process group is for the server, which then stops its workers.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
