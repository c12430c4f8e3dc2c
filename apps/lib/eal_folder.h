/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EAL_FOLDER_H
#define EAL_FOLDER_H

/*
 * Remove EAL's runtime folder when the process exits: EAL makes one per process and leaves it. Call it before rte_eal_init(), so that
 * it runs after EAL has removed its telemetry socket. A folder that still holds files (memory shared with other processes) stays.
 */
void eal_folder_remove_at_exit(void);

#endif
