// Written by `npm run generate` from the description of ingest.

export interface paths {
    "/livez": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Say whether the process is to be restarted */
        get: operations["livez"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show the metrics, in Prometheus' text format */
        get: operations["render"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Say whether the process can do its work */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contact-changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pin, mute, block or delete a contact
         * @description The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. Where the outcome is
         *     unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 a repeat takes the place of a change that was posted meanwhile, and one with `deleted` also covers messages
         *     that came meanwhile.) Refused as malformed below rule version 3.
         */
        post: operations["post_contact_change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Post many events
         * @description Every line is answered in order, while the body is still being read; a bad line, or one in another's name (403), does not stop the
         *     rest. One that is above the caller's rate is answered 429, and none behind it is taken. The last line is `{"accepted":n,"rejected":m}`.
         *     Lines without an answer may be on the log: a message with a `client_msg_id`, a read-ack of a `mid` and a change can be posted again, a
         *     read-ack of `latest` would then also cover messages that came meanwhile. An edit, a contact change, a profile or a change of a group takes
         *     the place of what was posted since, so it is posted again before anything later is.
         */
        post: operations["post_events"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Begin a group
         * @description The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. It may be repeated:
         *     a group that is as the body says already is left as it is. Refused as malformed below rule version 3.
         */
        post: operations["post_group"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/groups/{gid}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Change a group or its members
         * @description The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done, or why not: who asks
         *     may be no member, or have no right to it. Where the outcome is unknown, repeat it with the same `command_id` or `Idempotency-Key`. Below
         *     rule version 4 it may be repeated unless another change was posted meanwhile. Refused as malformed below rule version 3.
         */
        post: operations["post_group_change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/message-changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Recall, edit or hide a message
         * @description The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. Where the outcome is
         *     unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 an edit or a hide again is another change, and an edit takes the place of one that was posted meanwhile.) Refused as malformed below rule version 3.
         */
        post: operations["post_message_change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a message
         * @description The 202 means that it is on the log. Repeat it with the same client_msg_id where the outcome is unknown.
         */
        post: operations["post_message"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/read-acks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Say how far a conversation was read
         * @description A position never goes back. One of `latest` means the newest message when it is sequenced. Where the outcome is unknown (503
         *     `/problems/unknown-outcome`, or no answer), repeat it with the same `command_id` or `Idempotency-Key`: it then covers nothing that came
         *     meanwhile. (Below rule version 4 it would.)
         */
        post: operations["post_read_ack"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/profile": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set a profile
         * @description The whole of it: what is absent is not kept from an earlier one. The 202 means that it is on the log; with `after=` the calls of the query
         *     API show it. Where the outcome is unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 it takes the place of one that was posted meanwhile.) Refused as malformed below rule
         *     version 3.
         */
        put: operations["put_profile"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Where an accepted event is on `chat.inbound`; `after=<partition>:<offset>` of a query waits for it. */
        AcceptedBody: {
            /** @description The id of the send, given or generated; absent for all other events. */
            client_msg_id?: string | null;
            /** @description The id of any other command, given or generated. A repeat with it changes nothing (from rule version 4 on). */
            command_id?: string | null;
            /** @description The group that begins; absent for all other events. */
            gid?: string | null;
            /**
             * Format: int64
             * @description From 0.
             * @example 42
             */
            offset: number;
            /**
             * Format: int32
             * @description 0 to 63.
             * @example 17
             */
            partition: number;
        };
        /** @description "uid says this about the contact with peer." What is absent stays as it is; one member at least is not. */
        ContactChangeBody: {
            /** @description Whether what `peer` sends to `uid` is refused. */
            blocked?: boolean | null;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. Generated
             *     and returned where it is absent, here and in the header `Idempotency-Key`.
             */
            command_id?: string | null;
            /** @description `true`: the contact leaves the list until its next message, and what is in the conversation is read. */
            deleted?: boolean | null;
            /** @description Whether it is marked as a favourite. */
            favourite?: boolean | null;
            /** @description Whether `uid` wants no notifications. Messages are unread all the same. */
            muted?: boolean | null;
            /**
             * @description The other user.
             * @example 1001
             */
            peer: string;
            /**
             * @description Whether it is at the top of the list.
             * @example true
             */
            pinned?: boolean | null;
            /**
             * @description Whose contact it is.
             * @example 1000
             */
            uid: string;
        };
        /** @description One line of a batch: exactly one of the seven. */
        EventBody: {
            contact_change?: components["schemas"]["ContactChangeBody"] | null;
            group?: components["schemas"]["GroupBody"] | null;
            group_change?: components["schemas"]["GroupChangeBody"] | null;
            message?: components["schemas"]["MessageBody"] | null;
            message_change?: components["schemas"]["MessageChangeBody"] | null;
            profile?: components["schemas"]["UserProfileBody"] | null;
            read_ack?: components["schemas"]["ReadAckBody"] | null;
        };
        /** @description One field at fault. */
        FieldError: {
            /** @description The field's path as the caller wrote it: `srcid`, `message.msg`, `items[3].mid`. */
            field: string;
            /** @description What was wrong and what is right: "is 0; must be …". */
            message: string;
        };
        /** @description One gate in the answer of `/readyz`. */
        GateStatus: {
            /** @description `<service>.<what>`, such as `ingest.kafka`. */
            name: string;
            /** @description Whether it is open. */
            ready: boolean;
            /** @description What it waits for, while it is not. */
            reason?: string | null;
            /** @description What an operator should change although it is open. */
            warning?: string | null;
        };
        /** @description A group that begins, with `owner` as its first member. */
        GroupBody: {
            /**
             * @description In place of gid: the owner's own id of this group, 1 to 64 bytes, best a UUIDv7. The gid is made of the two, so a repeat is the same
             *     group: 2^62 and the last 62 bits of the UUIDv5 of `<owner>/<client_id>` in the namespace 6f2b9c7e-54a1-4d0c-8a53-1e7dc0b9a2f4.
             */
            client_id?: string | null;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. Generated
             *     and returned where it is absent, here and in the header `Idempotency-Key`.
             */
            command_id?: string | null;
            /**
             * @description Its id, which only services choose: from 1, and below 2^62 under rule version 4. A number is taken up to 2^53. Where it exists
             *     already, and is another group, this is refused.
             * @example 5000
             */
            gid?: string | null;
            /**
             * @description The first members besides the owner, at most 1,000; more are added afterwards.
             * @example [
             *       "1001",
             *       "1002"
             *     ]
             */
            members?: string[];
            /**
             * @description 1 to 100 characters without control characters.
             * @example Lunch
             */
            name: string;
            /** @description Whether anybody may join. */
            open?: boolean;
            /**
             * @description Who begins it.
             * @example 1000
             */
            owner: string;
            /** @description Whether members see what was sent before they joined. */
            whole_history?: boolean;
        };
        /** @description "by asks for this in the group": exactly one of the members after `by`. */
        GroupChangeBody: {
            /**
             * @description An admin: who becomes a member, 1 to 1,000 users.
             * @example [
             *       "1003"
             *     ]
             */
            add?: string[] | null;
            /**
             * @description Who asks.
             * @example 1000
             */
            by: string;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. Generated
             *     and returned where it is absent, here and in the header `Idempotency-Key`.
             */
            command_id?: string | null;
            /** @description `true`, the owner: the group ends. */
            dissolve?: boolean | null;
            /**
             * @description In a batch; otherwise that of the path, or absent.
             * @example 5000
             */
            gid?: string | null;
            /** @description `true`: to become a member of an open group. */
            join?: boolean | null;
            /** @description `true`: to be no member any more. */
            leave?: boolean | null;
            mute?: components["schemas"]["MuteBody"] | null;
            options?: components["schemas"]["OptionsBody"] | null;
            /** @description An admin: who is no member any more, 1 to 1,000 users. */
            remove?: string[] | null;
            /** @description An admin: the name from here on. */
            rename?: string | null;
            role?: components["schemas"]["RoleBody"] | null;
            unmute?: components["schemas"]["MuteBody"] | null;
        };
        /** @description A text from one user to another, or to a group. */
        MessageBody: {
            /**
             * @description The sender's own id of this send, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it is the same message. Generated
             *     and returned where it is absent, here and in the header `Idempotency-Key`.
             */
            client_msg_id?: string | null;
            /**
             * @description The receiver; the sender too, in a note to oneself.
             * @example 1000
             */
            destid?: string | null;
            /** @description In place of destid: a group of which the sender is a member. */
            gid?: string | null;
            /**
             * @description 1 byte to 16 KiB (as configured) of UTF-8 without NUL.
             * @example hello
             */
            msg: string;
            /**
             * @description The sender: 1 to 9223372036854775807. A number is taken up to 2^53.
             * @example 1001
             */
            srcid: string;
        };
        /** @description "by changes message mid of the conversation with peer, or of the group." */
        MessageChangeBody: {
            /**
             * @description Who makes the change.
             * @example 1001
             */
            by: string;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. Generated
             *     and returned where it is absent, here and in the header `Idempotency-Key`.
             */
            command_id?: string | null;
            /** @description In place of peer: a group of which `by` is a member. Its admins recall and delete everybody's messages, at any time. */
            gid?: string | null;
            /**
             * @description `recall` takes its text away for both sides, `delete` the message as a whole (only where the rules allow it), `edit` gives it another
             *     text: these three are the author's. `hide` hides it from `by`, `clear` it and all before it.
             * @example recall
             */
            kind: string;
            /**
             * Format: int64
             * @description Which message, 1 or more, as a number or a string.
             * @example 3
             */
            mid: number;
            /** @description Of an edit only: the new text, as of a message. */
            msg?: string | null;
            /**
             * @description The other user of the conversation.
             * @example 1000
             */
            peer?: string | null;
        };
        /** @description Exactly one of the two. */
        MuteBody: {
            /** @description `true`: all but admins and the owner. */
            all?: boolean | null;
            /**
             * @description A member.
             * @example 1003
             */
            uid?: string | null;
        };
        /** @description One of the two at least. */
        OptionsBody: {
            /** @description Whether anybody may join. */
            open?: boolean | null;
            /** @description Whether members see what was sent before they joined. */
            whole_history?: boolean | null;
        };
        /** @description One refusal, in the shape of RFC 9457 plus the extensions that the crate's page names. */
        Problem: {
            /** @description The id to repeat a message with, where the outcome is unknown. */
            client_msg_id?: string | null;
            /** @description The id to repeat any other command with, where the outcome is unknown. */
            command_id?: string | null;
            /** @description What went wrong this time and what would be right. */
            detail: string;
            /** @description The fields at fault, where fields are at fault. */
            errors?: components["schemas"]["FieldError"][];
            /**
             * Format: int64
             * @description Seconds to wait before trying again, where trying again makes sense.
             */
            retry_after_s?: number | null;
            /**
             * Format: int32
             * @description The HTTP status, repeated so that a problem is complete on a line of NDJSON.
             */
            status: number;
            /** @description The same words for every problem of this type. */
            title: string;
            /**
             * @description Stable URI reference of what sort of problem this is.
             * @example /problems/invalid-field
             */
            type: string;
        };
        /** @description What others see of a user, whole: what is absent is not kept from an earlier one. */
        ProfileBody: {
            /**
             * @description An http or https URL of at most 1,024 bytes.
             * @example https://example.com/ann.png
             */
            avatar?: string | null;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. Generated
             *     and returned where it is absent, here and in the header `Idempotency-Key`.
             */
            command_id?: string | null;
            /** @description An object of at most 4,096 bytes and 32 levels, kept as it is. */
            extra?: Record<string, never> | null;
            /**
             * @description 1 to 64 characters without control characters.
             * @example Ann
             */
            nick: string;
        };
        /**
         * Format: binary
         * @description What descriptions call a body in protobuf.
         */
        ProtobufBody: string;
        /** @description "uid, on this device class, has read the conversation with peer, or the group, up to mid." */
        ReadAckBody: {
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. Generated
             *     and returned where it is absent, here and in the header `Idempotency-Key`.
             */
            command_id?: string | null;
            /**
             * @description `pc` or `mobile`.
             * @example mobile
             */
            device: string;
            /** @description In place of peer: a group of which the reader is a member. */
            gid?: string | null;
            /**
             * Format: int64
             * @description Up to which message, 1 or more, as a number or a string; absent or `latest` for everything sequenced so far.
             * @example 3
             */
            mid?: number | null;
            /**
             * @description Whose messages.
             * @example 1001
             */
            peer?: string | null;
            /**
             * @description Who read.
             * @example 1000
             */
            uid: string;
        };
        /** @description What `/readyz` answers. */
        Readiness: {
            /** @description The gates in the order of their making. */
            gates: components["schemas"]["GateStatus"][];
            /** @description Every gate is ready and the process is not failing. */
            ready: boolean;
        };
        /** @description One line of the answer: an accepted line, a refused one, or the summary at the end. */
        ResultLine: {
            /** @description Of a message, only where it was generated here. */
            client_msg_id?: string | null;
            /** @description Of any other command but the beginning of a group, only where it was generated here. */
            command_id?: string | null;
            /** @description Of a group that begins. */
            gid?: string | null;
            /**
             * Format: int32
             * @description The line's number, from 1; blank ones count.
             */
            line: number;
            /**
             * Format: int64
             * @description From 0.
             */
            offset: number;
            /**
             * Format: int32
             * @description 0 to 63.
             */
            partition: number;
            /**
             * Format: int32
             * @description 202.
             */
            status: number;
        } | (components["schemas"]["Problem"] & {
            /**
             * Format: int32
             * @description The line's number, from 1; blank ones count.
             */
            line: number;
        }) | {
            /**
             * Format: int64
             * @description How many lines were answered with 202.
             */
            accepted: number;
            /**
             * Format: int64
             * @description How many were answered with anything else.
             */
            rejected: number;
        };
        /** @description Whose role, and which. */
        RoleBody: {
            /**
             * @description `member`, `admin`, or `owner`, which gives the group away: `by` becomes an admin.
             * @example admin
             */
            role: string;
            /**
             * @description A member.
             * @example 1001
             */
            uid: string;
        };
        /** @description A profile in a batch. */
        UserProfileBody: {
            /**
             * @description An http or https URL of at most 1,024 bytes.
             * @example https://example.com/ann.png
             */
            avatar?: string | null;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. Generated
             *     and returned where it is absent, here and in the header `Idempotency-Key`.
             */
            command_id?: string | null;
            /** @description An object of at most 4,096 bytes and 32 levels, kept as it is. */
            extra?: Record<string, never> | null;
            /**
             * @description 1 to 64 characters without control characters.
             * @example Ann
             */
            nick: string;
            /**
             * @description Whose it is.
             * @example 1001
             */
            uid: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    livez: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It works, or waits for others. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description It cannot recover by itself; why. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    render: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All of them. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description Where callers are authenticated: nothing valid says who calls. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Where callers are authenticated: it takes a service key with `admin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            /** @description It waits for something; for what. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
        };
    };
    post_contact_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A change to a contact; in protobuf a `chat.v1.ChangeContact`. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ContactChangeBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_events: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description One event a line; in protobuf length-delimited `chat.v1.IngestEvent`. */
        requestBody: {
            content: {
                "application/x-ndjson": components["schemas"]["EventBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description One result a line, then a summary; in protobuf length-delimited `chat.v1.EventResult`. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": components["schemas"]["ResultLine"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description The header `Idempotency-Key`: each line has an id of its own. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body's declared length is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none of the two. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many batches are under way, or the caller sends too many requests. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_group: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A group; in protobuf a `chat.v1.ChangeGroup` with `create` and a gid. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["GroupBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_group_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /**
                 * @description The group.
                 * @example 5000
                 */
                gid: string;
            };
            cookie?: never;
        };
        /** @description A change; in protobuf a `chat.v1.ChangeGroup`, whose gid is that of the path or absent. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["GroupChangeBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_message_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A change to a message; in protobuf a `chat.v1.ChangeMessage`. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["MessageChangeBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_message: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A message; in protobuf a `chat.v1.SendMessage`. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["MessageBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_read_ack: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A read position; in protobuf a `chat.v1.ReadAck`. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReadAckBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put_profile: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /**
                 * @description Whose profile it is.
                 * @example 1001
                 */
                uid: string;
            };
            cookie?: never;
        };
        /** @description What others see of the user; in protobuf a `chat.v1.SetProfile`, whose uid is that of the path or absent. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProfileBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
