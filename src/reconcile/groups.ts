/** Ends or restarts groups with a failed node, and starts the nodes of a restart. */
import type { App } from '../app/app.ts'
import { advanceGroup } from '../app/group/group.ts'
import { transact } from '../store/platform/database.ts'
import { GROUPS_WAKE, hasUnfinishedGroup, listUnfinishedGroups } from '../store/rental/group.ts'
import { eachOf, type Reconciler } from './loop.ts'

/** The maximum of groups per pass: more than any installation has machines for. */
const MAX_GROUPS = 10_000
const WIDTH = 4

export function advanceGroups(app: App): Reconciler {
  return {
    name: GROUPS_WAKE,
    due: hasUnfinishedGroup,
    run: async () => {
      const ids = await listUnfinishedGroups(app.database.db, MAX_GROUPS)
      await eachOf(ids, WIDTH, (id) => transact(app.database, (tx) => advanceGroup(app, tx, id)))
      return false
    },
  }
}
