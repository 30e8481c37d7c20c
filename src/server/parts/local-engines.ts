/** Opens the engines that run models on this machine, and the store of their files. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeModelStore } from '../../artifacts/model/model-store.ts'
import { npmRegistry } from '../../artifacts/model/npm-registry.ts'
import { engineName, type EngineName } from '../../contract/model.ts'
import { makeEngineHost } from '../../engines/process/engine-host.ts'
import type { LocalEngines } from '../../engines/process/local-engine.ts'
import { makeSocketFolder } from '../data/data-folder.ts'
import type { Context, Part } from './part.ts'

const GB = 1e9

export interface LocalEnginesPart extends Part {
  /** undefined: this server runs no models. */
  readonly engines: LocalEngines | undefined
}

export function openLocalEngines({ settings, dataDir, clock, log, metrics }: Context): LocalEnginesPart {
  if (!settings.localEngines) return { engines: undefined, close: () => {} }
  const store = makeModelStore({
    dir: path.join(dataDir, 'models'),
    limitBytes: settings.modelStoreGb * GB,
    allowPrivate: settings.allowPrivateAddresses,
    npmRegistry: npmRegistry({ address: settings.npmRegistry, env: settings.engineEnvironment }),
    hub: settings.modelHub,
    log,
    clock,
  })
  const crashes = metrics.counter('berth_engine_crashes_total', 'Crashes of engines on this server')
  const engines = makeEngineHost({
    store,
    socketDir: makeSocketFolder(dataDir, 'x'.repeat(18), undefined),
    ...enginePrograms(),
    env: settings.engineEnvironment,
    log,
    onCrash: (model, why) => {
      crashes.add({ model })
      log.error({ model, why }, 'engine exited unexpectedly; restarting it')
    },
  })
  return {
    engines,
    close: async () => {
      await engines.close()
      await store.close()
    },
  }
}

/** Beside the bundle in dist/, or the sources in development. */
function enginePrograms(): { entries: Record<EngineName, string>; execArgv: readonly string[] } {
  const thisFolder = path.dirname(fileURLToPath(import.meta.url))
  const entries = (place: (name: string) => string): Record<EngineName, string> => {
    // The stored name of the image engine is older than its folder.
    const all = engineName.options.map((engine) => [engine, place(engine === 'picture' ? 'image' : engine)] as const)
    return Object.fromEntries(all) as Record<EngineName, string>
  }
  const built = entries((name) => path.join(thisFolder, `${name}-engine.mjs`))
  if (existsSync(built.llama)) return { entries: built, execArgv: [] }
  return {
    entries: entries((name) => path.join(thisFolder, '..', '..', 'engines', name, 'main.ts')),
    execArgv: ['--import', import.meta.resolve('tsx')],
  }
}
