/**
 * The whole configuration of the NFS daemon as a text: NFSv4 over TCP at one address, and an export for each volume that
 * has clients. Who is not named there gets nothing, and does not even see the name of a volume.
 */

export interface GaneshaSettings {
  readonly vip: string
  readonly port: number
  /** Where the daemon keeps what it knows of its clients. */
  readonly stateFolder: string
}

export interface GaneshaExport {
  readonly exportId: number
  readonly folder: string
  readonly pseudo: string
  /** Addresses that were checked; at least one. */
  readonly clients: readonly string[]
}

/** What the daemon reads only when it starts. */
export function settingsText({ vip, port, stateFolder }: GaneshaSettings): string {
  return [
    'NFS_CORE_PARAM {',
    '  Protocols = 4;',
    `  Bind_addr = ${vip};`,
    `  NFS_Port = ${port};`,
    '  Enable_NLM = false;',
    '  Enable_RQUOTA = false;',
    '  Enable_UDP = false;',
    '}',
    'NFSV4 {',
    // After a start clients go on at once: nobody else could have taken what they had open.
    '  Graceless = true;',
    '  Minor_Versions = 0, 1, 2;',
    `  RecoveryRoot = "${stateFolder}";`,
    // Users are numbers. The names of the users of this machine mean nothing on others.
    '  Only_Numeric_Owners = true;',
    '}',
    'LOG {',
    '  Default_Log_Level = EVENT;',
    // These two say something for each connection that ends, and at each start that there is no message bus.
    '  Components { TIRPC = CRIT; DBUS = FATAL; }',
    '}',
    'EXPORT_DEFAULTS { Access_Type = None; Protocols = 4; Transports = TCP; SecType = sys; }',
    '',
  ].join('\n')
}

export function exportText({ exportId, folder, pseudo, clients }: GaneshaExport): string {
  return [
    'EXPORT {',
    `  Export_Id = ${exportId};`,
    `  Path = "${folder}";`,
    `  Pseudo = "${pseudo}";`,
    '  Access_Type = None;',
    '  Protocols = 4;',
    '  Transports = TCP;',
    '  SecType = sys;',
    '  FSAL { Name = VFS; }',
    '  CLIENT {',
    `    Clients = ${clients.join(', ')};`,
    '    Access_Type = RW;',
    '    Squash = No_Root_Squash;',
    '    Protocols = 4;',
    '  }',
    '}',
    '',
  ].join('\n')
}
