/** Everything a bench has started, stopped in reverse order in any case. */

interface Stoppable {
  stop(): Promise<void>
}

export interface Stage {
  add<T extends Stoppable>(starting: Promise<T>): Promise<T>
}

export async function withAll<T>(work: (stage: Stage) => Promise<T>): Promise<T> {
  const started: Stoppable[] = []
  try {
    return await work({
      add: async (starting) => {
        const one = await starting
        started.push(one)
        return one
      },
    })
  } finally {
    for (const one of started.toReversed()) await one.stop()
  }
}
